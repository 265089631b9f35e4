// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many files this process may have open.
//!
//! Every flow has sockets and a timer of its own, and Linux lets a process
//! open 1024 files unless it asks for more (getrlimit(2)).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a run has open at most: each of the 256 entries' 1000 members
/// has three or four, and no experiment is near that.
const FILES: u64 = 1 << 18;

/// Raises the limit as far as this process is allowed to. Where that is not
/// enough, opening a socket says so.
pub fn raise() {
    let now = getrlimit(Resource::Nofile);
    let maximum = now.maximum.map_or(FILES, |hard| hard.max(FILES));
    let wanted = |maximum: u64| Rlimit {
        current: Some(FILES.min(maximum)),
        maximum: Some(maximum),
    };
    if now.current.is_some_and(|soft| soft < FILES)
        && setrlimit(Resource::Nofile, wanted(maximum)).is_err()
        && let Some(hard) = now.maximum
    {
        // Without CAP_SYS_RESOURCE, the hard limit is what there is. It cannot
        // fail to be kept.
        let _ = setrlimit(Resource::Nofile, wanted(hard));
    }
}
