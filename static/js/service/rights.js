/* What the signed-in user may change, by the role of their token and the owner of a job. The
 * service refuses the rest, so the page does not offer it; css takes links to forms from
 * viewers. */

/** @type {Api.Session} */
let who = {};

/** @param {Api.Session} session */
export function setRights(session) {
  who = session;
  document.body.dataset.role = session.role || '';
}

/* Jobs, sweeps and nodes in general. */
export const mayChange = () => who.role !== 'viewer';

/* Programs of one's own, which are code on the nodes. */
export const mayBringPrograms = () => who.role === 'programs' || who.role === 'admin';

/**
 * A job or a sweep that there is.
 * @param {{owner?: string | null}} thing
 */
export const mayChangeThis = ({owner}) =>
    who.role === 'admin' || (mayChange() && Boolean(owner) && owner === who.owner);
