# SPDX-License-Identifier: Apache-2.0 OR MIT
"""For gdb: runs a program, and prints the address of each function that it meets.

MET_FUNCTIONS names a file with the address of each function in the program's file, one
a line. It first prints `process NUMBER`, the process to end by SIGTERM, then `met
ADDRESS` whenever a function is met for the first time. Until then a function begins with an instruction
that stops the program (int3). gdb's own breakpoints would do, but setting 30,000 of
them takes too long.
"""

import os

import gdb

STOP = b"\xcc"

for setting in ("pagination off", "confirm off", "language c"):
    gdb.execute("set " + setting)
for signal in ("SIGTRAP", "SIGTERM"):
    gdb.execute(f"handle {signal} stop print nopass", to_string=True)
stops = []
gdb.events.stop.connect(lambda stop: stops.append(getattr(stop, "stop_signal", "")))

gdb.execute("starti", to_string=True)
program = gdb.selected_inferior()
with open(f"/proc/{program.pid}/maps", encoding="utf-8") as mapped:
    moved = int(mapped.readline().partition("-")[0], 16)
with open(os.environ["MET_FUNCTIONS"], encoding="ascii") as listed:
    functions = {int(line, 16) + moved for line in listed}
begin = {at: bytes(program.read_memory(at, 1)) for at in functions}
for at in functions:
    program.write_memory(at, STOP)
print("process", program.pid, flush=True)
while True:
    gdb.execute("continue", to_string=True)
    if not program.is_valid() or program.pid == 0 or stops[-1] == "SIGTERM":
        break
    at = gdb.newest_frame().pc() - 1
    if at in begin:
        # Another thread may have met it at the same time.
        program.write_memory(at, begin[at])
        gdb.execute(f"set $pc = {at}", to_string=True)
        if at in functions:
            functions.remove(at)
            print(f"met {at - moved:x}", flush=True)
