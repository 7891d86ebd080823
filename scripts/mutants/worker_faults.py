"""Faults in the processes and in the core."""

from scripts.mutants.mutant import Mutant

TRANSPORT = "tests/workers/test_streams_transport.py"
SHARING = "tests/workers/test_streams_ownership.py"
FOLD = "tests/workers/test_fold.py"
SET_ASIDE = "tests/workers/test_fold_set_aside.py"
HARM = "tests/workers/test_fold_harm.py"
SENDING = "tests/workers/delivery/test_worker.py"
RECOVERY = "tests/workers/delivery/test_recovery.py"
ASKING = "tests/workers/delivery/test_reconciling.py"
RECALL = "tests/workers/delivery/test_recall.py"
IDENTITY = "tests/pipeline/test_text_identity.py"
CHANNELS = "tests/workers/delivery/test_channels.py"

MUTANTS = (
    Mutant(
        name="retries on in the client",
        breaks="no client repeats a command by itself",
        path="workers/streams/connection.py",
        edits=(
            (
                "config.url, retry=AsyncRetry(NoBackoff(), 0), max_connections=POOL_SIZE",
                "config.url, retry=AsyncRetry(NoBackoff(), 3), max_connections=POOL_SIZE",
            ),
        ),
        tests=(TRANSPORT,),
    ),
    Mutant(
        name="take-over right after a restart",
        breaks="after the server was away nobody takes anything over for one lease",
        path="workers/streams/guard.py",
        edits=(
            (
                "        elif known != run_id:\n            self.disturbed",
                "        elif known != run_id:\n            logs.bind",
            ),
        ),
        tests=(TRANSPORT, SHARING),
    ),
    Mutant(
        name="lease counted from the reply",
        breaks="a holder's view of its lease begins before the request that renewed it",
        path="workers/streams/lease.py",
        edits=(
            (
                "lease.until_ms = asked_at + self._lease_ms",
                "lease.until_ms = self._clock.boottime_ms() + self._lease_ms",
            ),
        ),
        tests=(TRANSPORT, SHARING),
    ),
    Mutant(
        name="no digest compare at a rebuild",
        breaks="a turn that folds otherwise than before is not spliced",
        path="workers/fold/rebuild.py",
        edits=(("    return mine != (", "    return False and mine != ("),),
        tests=(HARM,),
    ),
    Mutant(
        name="adopt skipped",
        breaks="a new owner claims what its predecessor had taken",
        path="workers/delivery/planner.py",
        edits=(("        claimed = 1\n        while claimed:", "        claimed = 0\n        while claimed:"),),
        tests=(SENDING,),
    ),
    Mutant(
        name="everything handed over at once",
        breaks="a partition is served until its successor's turn for it has come",
        path="workers/streams/ownership_loop.py",
        edits=(("if self._hand_over_ms and others else len(partitions)", "if False else len(partitions)"),),
        tests=("tests/workers/test_streams_ownership.py",),
    ),
    Mutant(
        name="suspect fed again",
        breaks="a turn that kills its owners is set aside",
        path="workers/fold/partition.py",
        edits=(
            ("            await self._set_aside(record)\n            return\n", "            pass\n"),
            (
                "            await self._settle()\n            await self._set_aside(record)\n            return None\n",
                "            pass\n",
            ),
        ),
        tests=(HARM,),
    ),
    Mutant(
        name="suspect folded without end",
        breaks="a turn that kills whenever it is folded is ended all the same",
        path="workers/fold/partition.py",
        edits=(("        if lost < CAREFUL_FROM:", "        if True:"),),
        tests=(SET_ASIDE,),
    ),
    Mutant(
        name="held text left in the log",
        breaks="what was read of a turn that cannot be folded again is given out",
        path="workers/fold/remainder.py",
        edits=(("            if read.startswith(carried):", "            if False:"),),
        tests=(SET_ASIDE,),
    ),
    Mutant(
        name="no intent before the send",
        breaks="a send is bracketed: intent before, receipt after",
        path="workers/delivery/sender.py",
        edits=(
            (
                "        intent = await self._intent(part, attempt)\n",
                "        intent = Intent(reply=Reply.OK, at=context.clock.now_ms(), number=1)\n",
            ),
            (
                "        context.recall.end(part.id, attempt, outcome)\n",
                "        context.recall.end(part.id, attempt, outcome)\n        await self._intent(part, attempt)\n",
            ),
        ),
        tests=(SENDING,),
    ),
    Mutant(
        name="receipt refused from an older token",
        breaks="the outcome of an attempt is a fact, whoever owns the partition by now",
        path="workers/delivery/worker.py",
        edits=(
            (
                "        served.stop()\n        self._ending[task] = served\n",
                "        served.stop()\n        asyncio.ensure_future(served.abandon())\n        self._ending[task] = served\n",
            ),
        ),
        tests=(SENDING,),
    ),
    Mutant(
        name="quarantine zero",
        breaks="nobody acts on an attempt whose request may still be on its way",
        path="workers/config/schema.py",
        edits=(("return self.send_deadline_ms + self.lease_ms + self.margin_ms", "return 0"),),
        tests=(ASKING, SENDING),
    ),
    Mutant(
        name="unknown sent again",
        breaks="what may have arrived at a receiver that cannot tell is never sent again",
        path="workers/delivery/recovery.py",
        edits=(('    if policy.on_unknown == "resend" and', '    if policy.on_unknown != "drop" and'),),
        tests=(RECOVERY, SENDING),
    ),
    Mutant(
        name="not found means found",
        breaks="what a channel says when it is asked is what happens",
        path="workers/delivery/asking.py",
        edits=(("Operation.FOUND if found is Found.YES else Operation.NOT_FOUND", "Operation.FOUND"),),
        tests=(ASKING,),
    ),
    Mutant(
        name="nothing recalled",
        breaks="what a server forgot is written again by the process that sent it, not sent again",
        path="workers/delivery/recall.py",
        edits=(
            (
                "        made = self._made.get(part.id)\n        if made is None:\n            return None\n        if part",
                "        made = None\n        if made is None:\n            return None\n        if part",
            ),
        ),
        tests=(RECALL,),
    ),
    Mutant(
        name="no gate at the write",
        breaks="a socket is written only while the lease outlasts the attempt",
        path="workers/delivery/gate.py",
        edits=(("        if not self.is_open:\n            raise GateClosedError\n", ""),),
        tests=("tests/workers/delivery/test_gate.py", CHANNELS),
    ),
    Mutant(
        name="ambiguous counts as not sent",
        breaks="after the request began, silence is no proof",
        path="workers/delivery/exchange.py",
        edits=(('return lost("deadline") if body.written else', 'return not_sent("deadline") if body.written else'),),
        tests=(CHANNELS, SENDING),
    ),
    Mutant(
        name="resume without a look at the bytes",
        breaks="a client that holds other bytes is told that the stream was rolled back",
        path="workers/gateway/watch.py",
        edits=(("            elif self._last_hash != known.digest:", "            elif False:"),),
        tests=("tests/workers/gateway/test_watch.py",),
    ),
    Mutant(
        name="request made again after output",
        breaks="an upstream is asked again only while nothing that it said was published",
        path="workers/ingest/takeover.py",
        edits=(("if len(head) == next_seq and all(is_ours(event) for event in head):", "if True:"),),
        tests=("tests/workers/ingest/test_takeover.py",),
    ),
    Mutant(
        name="rolled back producer goes on",
        breaks="a server that lost what nobody holds any more ends the turn by name",
        path="workers/ingest/batcher.py",
        edits=(("        if expected != front:\n            raise RolledBackError(expected)\n", ""),),
        tests=("tests/workers/ingest/test_batcher.py", "tests/workers/ingest/test_publisher.py"),
    ),
    Mutant(
        name="dedupe by text",
        breaks="two equal texts at two positions are two texts",
        path="pipeline/assemble/answer.py",
        edits=(
            (
                "        if not text:\n            return []\n        blocks = self._reasoning.flush(final=True) if self._thought",
                "        if not text or text == self._last:\n            return []\n        blocks = self._reasoning.flush(final=True) if self._thought",
            ),
        ),
        tests=(IDENTITY,),
    ),
    Mutant(
        name="tool before text",
        breaks="the text before a tool goes out before it",
        path="pipeline/assemble/answer.py",
        edits=(
            (
                "            blocks = self.flush()\n            self._apart,",
                "            blocks: list[Block] = []\n            self._apart,",
            ),
        ),
        tests=(IDENTITY,),
    ),
    Mutant(
        name="CR LF counted twice",
        breaks="a line end that is cut in two is one line end",
        path="pipeline/normalize/sse.py",
        edits=(('            if data[:1] == b"\\n":\n                data = data[1:]\n', ""),),
        tests=("tests/pipeline/normalize/test_sse.py",),
    ),
)
