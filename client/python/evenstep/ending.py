"""How the program ends, which its rank is told: well, or by an exception and where that was raised.

    the interpreter ends    leave()     what is still due is sent, and the other nodes go on
    an exception ends it    failed()    "NameError: name 'los' is not defined (train.py, line 12)"

Some exceptions come of what a program meets here and alone does not, batches of other sizes above
all: their sentence says what to write instead.
"""

import atexit
import os
import re
import sys
import traceback

from .library import Error, Lost

SAID_MOST = 240  # characters of an exception, so that its place is not cut off


def place_of(trace, folder):
    """('train.py', 12), the innermost line that is in the program's folder; or None."""
    files = [at for at in traceback.extract_tb(trace) if at.filename[:1] != "<"]  # <frozen os>
    names = [(os.path.join(folder, at.filename), at.lineno) for at in files]
    own = [(os.path.relpath(name, folder), n) for name, n in names if name.startswith(folder)]
    return own[-1] if own else None


def _told_by(error, within):
    """An Error of ours that a framework has wrapped, as TensorFlow does in a graph, if `within` was
    the last one raised; else the exception itself."""
    inner = error
    while inner is not None and not isinstance(inner, Error):
        inner = inner.__cause__ or inner.__context__
    inner = inner or within
    return inner if inner is not None and str(inner) in str(error) else error


def _numbers(text):
    return set(map(int, re.findall(r"\d{1,9}", text)))


class Ending:
    def __init__(self, run, library):
        self.run, self._library = run, library
        self.before_leave = None  # called before leaving, to report what is still due
        self.within = None  # the last Error raised where a framework calls us

    def watch(self):
        """Leaves when the interpreter ends, and tells the rank about an exception that ends it."""
        pid, folder, hook = os.getpid(), os.getcwd() + os.sep, sys.excepthook
        ended = []

        def on_exception(kind, value, trace):
            first = os.getpid() == pid and not ended
            ended.append(True)
            try:
                hook(kind, value, trace)  # before the rank knows, which then ends this process
                sys.stderr.flush()
            finally:
                if first:
                    told = _told_by(value, self.within)
                    self._quietly(self.failed, type(told), told, place_of(trace, folder))

        def on_exit():
            if os.getpid() == pid and not ended:
                ended.append(True)
                self._quietly(self.run.leave)

        sys.excepthook = on_exception
        atexit.register(on_exit)

    def _quietly(self, call, *args):
        try:
            call(*args)
        except Error as e:
            self.run.say(e)

    def finish(self):
        """Does what is due before the rank hears that the program leaves."""
        if not self.before_leave:
            return
        try:
            self._check_it_began()
            self.before_leave()
        except Error as e:
            if not isinstance(e, Lost):
                self.failed(type(e), e, None)
            raise

    def _check_it_began(self):
        """Fails for a program that has prepared itself but took no batch."""
        if self.run.on_start and not self.run.over:
            raise Error(
                "the program has called prepare() and ends without having taken a batch. One that "
                "goes on from a file of its own (`for epoch in range(start, n)`) may have found a "
                "file of an earlier run: a run has checkpoints, and begins with epoch 0"
            )

    def failed(self, kind, error, place):
        """Ends with this exception, raised at `place`: "NameError: name 'los' is not defined
        (train.py, line 12)". Our own refusals are sentences, and the program is not started
        again."""
        said = "".join(traceback.format_exception_only(kind, error)).strip()
        if isinstance(error, Error):
            final = not isinstance(error, Lost)
            (self._library.refused if final else self._library.failed)(said.encode())
            return
        sentence = "%s (%s, line %d)" % (said[:SAID_MOST], *place) if place else said
        sentence += self.why_sizes(error) + self._why_short(error)
        file, line = place or (None, 0)
        self._library.raised(sentence.encode(), said.encode(), file and file.encode(), line)

    def why_sizes(self, error):
        """Explains sizes: a state kept from batch to batch, as in a word model, or an object made
        for batch_size rows, meets another number of rows."""
        before, now = self.run.counts
        whole = self.run.global_batch
        if not re.search("size|shape|dimension", str(error)):
            return ""
        if now < whole and {now, whole} <= _numbers(str(error)):
            return (
                "; of a batch of %d samples this node has %d: make what belongs to a batch by its "
                "own number of rows, len(x), in place of batch_size" % (whole, now)
            )
        if 0 in (before, now) or before == now:
            return ""
        return (
            "; this batch has %d samples and the one before had %d, since a node's share changes: "
            "keep nothing by sample from batch to batch, or take sync with "
            "`--set /batching/policy=static`" % (now, before)
        )

    def _why_short(self, error):
        """Explains that an interrupted epoch has fewer batches than the program asks for."""
        if not isinstance(error, StopIteration) or not self.run.resumed:
            return ""
        return (
            "; the run went on within an epoch, whose loop has the batches that are left: ask for "
            "len(loader) in each epoch and not before"
        )
