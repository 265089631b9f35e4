// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit of open files of this process.
//!
//! Every flow has its own sockets and timer, and the default limit of Linux is 1024 files
//! (getrlimit(2)).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The largest number of files that a run needs: each of the 256 entries' 1000 senders has three
/// or four. No experiment comes close to this.
const FILES: u64 = 1 << 18;

/// Raises the limit as far as this process may. If that is not enough, opening a socket fails
/// with an error.
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
        // Without CAP_SYS_RESOURCE, only the soft limit can rise, up to the hard limit. Ignore
        // the result: this cannot fail.
        let _ = setrlimit(Resource::Nofile, wanted(hard));
    }
}
