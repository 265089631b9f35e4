// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drops all privileges that this process does not need to answer requests. It changes the user,
//! drops all capabilities, and restricts system calls to a short list. After that it cannot open
//! files or sockets.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Signal, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;
use weirgate_units::Inserted as _;

/// The kernel's overflow user (`/proc/sys/kernel/overflowuid`), which systems name `nobody`: it
/// owns no files.
const NOBODY: u32 = 65_534;

/// System calls that are allowed with any arguments: to use open descriptors, to wait, to
/// allocate memory, and to exit. [`filter`] allows further calls depending on their arguments.
const ALLOWED: &[i64] = &[
    // Connections and open files.
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_write,
    libc::SYS_writev,
    // Waiting.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    // Memory and threads.
    libc::SYS_brk,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
];

/// Additional system calls on x86-64.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[libc::SYS_epoll_wait, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Drops all privileges of this thread and the threads that it starts later. After an error, no
/// request may be answered.
pub(crate) fn confine() -> io::Result<()> {
    drop_bounding_set()?;
    change_user()?;
    drop_capabilities()?;
    // Other processes of the same user must not read this one, which has keys.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Set it after the change of user, which clears it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    thread::set_no_new_privs(true)?;
    let filter = filter().map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

/// Empties the capability bounding set, which limits executed programs. Without CAP_SETPCAP it
/// stays. That is harmless, because nothing is executed here, and `no_new_privs` prevents
/// gaining capabilities.
fn drop_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match thread::capability_is_in_bounding_set(one) {
            Ok(false) => {}
            Ok(true) => match thread::remove_capability_from_bounding_set(one) {
                Err(Errno::PERM) => return Ok(()),
                done => done?,
            },
            // The kernel knows no further capabilities.
            Err(Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Changes to the user `nobody` if permitted. Root may do so. The packaged service may not, but
/// it has its own user. In a user namespace without `nobody` the user stays, and the list of
/// system calls prevents access to its files.
fn change_user() -> io::Result<()> {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    if !thread::capabilities(None)?.effective.contains(needed) {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let changed = thread::set_thread_groups(&[])
        .and_then(|()| thread::set_thread_res_gid(group, group, group))
        .and_then(|()| thread::set_thread_res_uid(user, user, user));
    match changed {
        Err(Errno::INVAL | Errno::PERM) => Ok(()),
        other => Ok(other?),
    }
}

fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    thread::clear_ambient_capability_set()?;
    thread::set_capabilities(None, none)?;
    Ok(())
}

/// Returns the list as a seccomp program. Other system calls fail with ENOSYS, so that libraries
/// use alternatives.
#[allow(
    clippy::unnecessary_cast,
    reason = "C libraries differ in the type of FIONBIO"
)]
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = ALLOWED.iter().chain(OLDER);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls.map(|call| (*call, Vec::new())).inserted();
    let executable = libc::PROT_EXEC as u64;
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
    let own = rustix::process::getpid().as_raw_nonzero().get() as u64;
    for (call, argument, operator, value) in [
        // Memory never becomes executable.
        (libc::SYS_mmap, 2, SeccompCmpOp::MaskedEq(executable), 0),
        (libc::SYS_mprotect, 2, SeccompCmpOp::MaskedEq(executable), 0),
        // Threads are allowed, processes are not. `clone3` is refused, because a filter cannot
        // inspect its arguments.
        (libc::SYS_clone, 0, SeccompCmpOp::MaskedEq(thread), thread),
        // The process may abort itself.
        (libc::SYS_tgkill, 0, SeccompCmpOp::Eq, own),
        // Threads may set their name.
        (
            libc::SYS_prctl,
            0,
            SeccompCmpOp::Eq,
            libc::PR_SET_NAME as u64,
        ),
        // Descriptors may be made non-blocking.
        (libc::SYS_ioctl, 1, SeccompCmpOp::Eq, libc::FIONBIO as u64),
        (libc::SYS_fcntl, 1, SeccompCmpOp::Eq, libc::F_GETFL as u64),
        (libc::SYS_fcntl, 1, SeccompCmpOp::Eq, libc::F_SETFL as u64),
    ] {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        let rule = SeccompRule::new(vec![condition])?;
        rules.entry(call).or_default().push(rule);
    }
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, missing, SeccompAction::Allow, architecture)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// System calls that an attacker would want, with arguments that are harmless if the call is
    /// allowed. The filter runs before the kernel checks the arguments.
    const WANTED: [(i64, [i64; 3]); 34] = [
        (libc::SYS_socket, NETFILTER),
        (libc::SYS_socket, ROUTE),
        (libc::SYS_socket, PACKETS),
        (
            libc::SYS_socket,
            [libc::AF_INET as i64, libc::SOCK_STREAM as i64, 0],
        ),
        (libc::SYS_socketpair, [0; 3]),
        (libc::SYS_connect, [-1, 0, 0]),
        (libc::SYS_bind, [-1, 0, 0]),
        (libc::SYS_listen, [-1, 0, 0]),
        (libc::SYS_setsockopt, [-1, 0, 0]),
        (libc::SYS_openat, [-1, 0, 0]),
        (libc::SYS_openat2, [-1, 0, 0]),
        (libc::SYS_open_by_handle_at, [-1, 0, 0]),
        (libc::SYS_unlinkat, [-1, 0, 0]),
        (libc::SYS_ftruncate, [-1, 0, 0]),
        (libc::SYS_pwrite64, [-1, 0, 0]),
        (libc::SYS_memfd_create, [0; 3]),
        (libc::SYS_bpf, [0; 3]),
        (libc::SYS_perf_event_open, [0; 3]),
        // PTRACE_TRACEME, which needs no privilege.
        (libc::SYS_ptrace, [0; 3]),
        (libc::SYS_process_vm_readv, [-1, 0, 0]),
        (libc::SYS_process_vm_writev, [-1, 0, 0]),
        (libc::SYS_pidfd_open, [-1, 0, 0]),
        (libc::SYS_pidfd_getfd, [-1, 0, 0]),
        (libc::SYS_kill, [0; 3]),
        (libc::SYS_execve, [0; 3]),
        (libc::SYS_execveat, [-1, 0, 0]),
        (libc::SYS_clone3, [0; 3]),
        (libc::SYS_unshare, [0; 3]),
        (libc::SYS_setns, [-1, 0, 0]),
        (libc::SYS_mount, [0; 3]),
        (libc::SYS_io_uring_setup, [0; 3]),
        (libc::SYS_keyctl, [-1, 0, 0]),
        (libc::SYS_setuid, [0; 3]),
        (libc::SYS_capset, [0; 3]),
    ];
    const NETFILTER: [i64; 3] = netlink(libc::NETLINK_NETFILTER);
    const ROUTE: [i64; 3] = netlink(libc::NETLINK_ROUTE);
    const PACKETS: [i64; 3] = [libc::AF_PACKET as i64, libc::SOCK_RAW as i64, 0];

    const fn netlink(protocol: i32) -> [i64; 3] {
        [
            libc::AF_NETLINK as i64,
            libc::SOCK_RAW as i64,
            protocol as i64,
        ]
    }

    /// Returns the calls that the filter does not refuse.
    #[expect(unsafe_code, reason = "most of these calls have no safe function")]
    fn left(wanted: &[(i64, [i64; 3])]) -> Vec<(i64, [i64; 3], Option<i32>)> {
        let tried = wanted.iter().map(|&(call, with)| {
            // SAFETY: no argument is a pointer to anything, and none changes an existing
            // descriptor or memory.
            let done = unsafe { libc::syscall(call, with[0], with[1], with[2], 0, 0, 0) };
            let error = (done < 0).then(|| io::Error::last_os_error().raw_os_error());
            (call, with, error.flatten())
        });
        let refused = Some(libc::ENOSYS);
        tried.filter(|one| one.2 != refused).collect()
    }

    #[test]
    fn nothing_is_left_to_a_confined_thread() {
        let file = std::env::temp_dir().join("weirgate-confined");
        // These calls work without the filter. PTRACE_TRACEME would make this process traced, so
        // it is not tried here.
        let (traced, others): (Vec<_>, Vec<_>) = WANTED
            .into_iter()
            .partition(|(call, _)| *call == libc::SYS_ptrace);
        assert_eq!((traced.len(), left(&others).len()), (1, others.len()));
        let work = std::thread::spawn(move || {
            confine().expect("it can be confined");
            let tried = || {
                let results = [
                    std::fs::read("/proc/self/status").map(drop),
                    std::fs::write(&file, "x"),
                    std::fs::File::options()
                        .write(true)
                        .open("/dev/null")
                        .map(drop),
                    std::net::TcpStream::connect("127.0.0.1:1").map(drop),
                    Command::new("/bin/true").status().map(drop),
                ];
                let errors = results.map(|result| result.expect_err("refused"));
                (left(&WANTED), errors.map(|error| error.raw_os_error()))
            };
            // Threads can still be started, and are confined too.
            let within = std::thread::scope(|scope| scope.spawn(tried).join());
            [tried(), within.expect("a thread")]
        });
        for (left, errors) in work.join().expect("it works on") {
            assert_eq!(left, []);
            assert_eq!(errors, [Some(libc::ENOSYS); 5]);
        }
    }
}
