/* What the service's API answers with about people: tokens, owners of jobs, what they used
   (api.d.ts). */
declare namespace Api {
  interface Disk {
    low: boolean;
    full: boolean;
    free_bytes?: number|null;
    data_bytes?: number|null;
    can_go_bytes: number;
    jobs: {id: string, finished: string, disk_bytes: number, can_go_bytes: number}[];
  }

  interface Token {
    id: string;
    name: string;
    role: string;
    source: 'file' | 'issued';
    created?: string|null;
    /** null: it does not end by itself. */
    expires?: string|null;
    by?: string|null;
    expired: boolean;
  }

  /** What an owner may have; null: no limit. */
  interface Quota {
    queued?: number|null;
    running?: number|null;
    nodes?: number|null;
    disk_bytes?: number|null;
    max_seconds?: number|null;
    max_wall_seconds?: number|null;
  }

  interface Owner {
    name: string;
    queued: number;
    running: number;
    nodes: number;
    disk_bytes: number;
    quota: Quota;
  }

  interface AccountingRow {
    owner?: string|null;
    node_hours: number;
  }
}
