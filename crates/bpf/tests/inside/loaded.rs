// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accesses maps of a loaded program, for changes that only another processor could make.

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Returns a loaded program's number.
pub fn number(program: &OwnedFd) -> u32 {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let shown = fs::read_to_string(path).expect("a program");
    let id = shown.lines().find_map(|line| line.strip_prefix("prog_id:"));
    let id = id.expect("a number").trim().parse();
    id.expect("a number")
}

/// Sets the lock at the beginning of a program's first instance.
pub fn set_lock(program: &OwnedFd, lock: u32) {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == number(program));
    let maps = info.expect("the program").map_ids;
    let mut maps = maps
        .iter()
        .map(|id| MapHandle::from_map_id(*id).expect("a map"));
    let states = maps.find(|map| map.name() == "instances").expect("a map");
    let first = 0_u32.to_ne_bytes();
    let state = states.lookup(&first, MapFlags::ANY).expect("a map");
    let mut state = state.expect("an instance");
    state[..4].copy_from_slice(&lock.to_ne_bytes());
    states
        .update(&first, &state, MapFlags::ANY)
        .expect("an instance");
}
