// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies a plan with a kernel that refuses one of the requests, and whose answers are altered on
//! their way. Refusals are reported as success, and success as refusal. Dumps are interrupted;
//! datagrams are duplicated, truncated, or have flipped bits.
//!
//! The kernel is this machine's, in a network namespace. Besides "no panic", this must hold:
//!
//! - The change ends.
//! - If the kernel's answers about its state were true, its state is the one that `apply` reports:
//!   the changed or the old one.
//! - A kernel that answers truthfully can be restored to the old state.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use tokio::runtime::{Builder, Runtime};
use weirgate_kernel::{Alteration, AlteredAnswer, ApplyError, Fault, Kernel, Scope};
use weirgate_plan::{Options, plan_with, verify};
use weirgate_state::{Capabilities, State};

/// Two policies with different classes, queues and rules.
const POLICIES: [&str; 2] = [
    r#"
version = 1
link = { device = "wan", up = "10mbit", layer = "ethernet" }
[[class]]
name = "a"
share = "50%"
queue = "pfifo 50"
[[class]]
name = "b"
share = "50%"
queue = "pfifo 50"
default = true
[[rule]]
class = "a"
protocol = "tcp"
remote-port = 22
"#,
    r#"
version = 1
link = { device = "wan", up = "12mbit", layer = "ethernet" }
[[class]]
name = "a"
share = "20%"
queue = "pfifo 50"
[[class]]
name = "b"
share = "30%"
queue = "pfifo 50"
default = true
[[class]]
name = "c"
share = "50%"
queue = "pfifo 50"
[[rule]]
class = "c"
protocol = "udp"
[[rule]]
class = "a"
protocol = "tcp"
remote-port = [22, 443]
"#,
];

/// The length of an alteration in the input: how many datagrams after the previous one, the kind of
/// alteration, and two more bytes.
const CHANGE: usize = 4;

/// The namespace, and its possible states.
struct Place {
    runtime: Runtime,
    namespace: File,
    /// Its kernel without alterations.
    truthful: Kernel,
    /// The empty state, and those of the policies.
    states: Vec<State>,
    scope: Scope,
}

pub fn run(data: &[u8]) {
    static PLACE: LazyLock<Mutex<Place>> = LazyLock::new(|| Mutex::new(place()));
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((&[states, refused], script)) = data.split_first_chunk() {
        let tried = tried(&place, states, usize::from(refused), script);
        place.runtime.block_on(tried);
    }
}

/// Makes a namespace with a device `wan`. Its thread ends; the file keeps the namespace.
fn place() -> Place {
    let made = thread::spawn(|| {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "it makes a network namespace, which needs root");
        // SAFETY: with CLONE_NEWNET, the thread shares everything else, and memory safety does not
        // depend on a thread's network namespace.
        #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
        unsafe {
            rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET)
                .expect("a network namespace");
        }
        for line in ["link add wan type veth peer name far", "link set wan up"] {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.is_ok_and(|status| status.success()), "ip {line}");
        }
        File::open("/proc/thread-self/ns/net").expect("its namespace")
    });
    let namespace = made.join().expect("a namespace");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let wanted: Vec<State> = POLICIES.iter().map(|text| state(text)).collect();
    let scope = Scope::of(&wanted);
    let (truthful, bare) = runtime.block_on(async {
        let kernel = Kernel::open_in(namespace.as_fd()).expect("a kernel");
        let bare = kernel.observe(&scope).await.expect("it is read");
        (kernel, bare)
    });
    let states = [bare].into_iter().chain(wanted).collect();
    Place {
        runtime,
        namespace,
        truthful,
        states,
        scope,
    }
}

/// Returns a policy's qdiscs, classes and rules. Offloads are left out: they use another netlink
/// family, whose answers are not altered here.
fn state(policy: &str) -> State {
    let (policy, _) = weirgate_policy::parse(policy);
    let policy = policy.expect("a policy");
    let (state, _) = weirgate_compile::compile(&policy, &Capabilities::all());
    let mut state = state.expect("a state");
    for device in state.devices.values_mut() {
        device.offloads = None;
    }
    state
}

/// Returns the alterations of a script, and whether a kernel could give these answers.
fn changes(script: &[u8]) -> (Vec<AlteredAnswer>, bool) {
    let (mut at, mut changes) = (0, Vec::new());
    for &[later, how, low, high] in script.as_chunks::<CHANGE>().0 {
        at += usize::from(later);
        let word = u16::from_le_bytes([low, high]);
        let how = match how % 8 {
            0 | 1 => Alteration::Errno(low % 134),
            2 => Alteration::Errno(0),
            3 => Alteration::Interrupted,
            4 => Alteration::Twice,
            5 => Alteration::Stale,
            6 => Alteration::Cut(word),
            _ => Alteration::Flipped(u16::from(low), high),
        };
        changes.push(AlteredAnswer { at, how });
    }
    let plausible = changes.iter().all(|change| change.how.is_plausible());
    (changes, plausible)
}

/// Changes one state to another, and back to the empty state.
async fn tried(place: &Place, states: u8, refused: usize, script: &[u8]) {
    let (count, states) = (place.states.len(), usize::from(states));
    let (from, to) = (states % count, states / count % count);
    let (from, to) = (&place.states[from], &place.states[to]);
    let (changes, plausible) = changes(script);
    let truthful = &place.truthful;
    restored(truthful, from, &place.scope).await;
    let before = truthful.observe(&place.scope).await.expect("it is read");

    let altered = Kernel::altered(place.namespace.as_fd(), changes).expect("a kernel");
    altered.inject(Some(Fault::Refused(refused)));
    let options = Options {
        previous: Some(from),
        replace_foreign: true,
    };
    let plan = plan_with(&before, to, &options).expect("a plan");
    let said = altered.apply(&plan).await;
    let now = truthful.observe(&place.scope).await.expect("it is read");
    if plausible {
        match &said {
            Ok(_) => assert_eq!(verify(&now, to), [], "what was said to be done"),
            Err(ApplyError::Restored { cause }) => {
                assert_eq!(verify(&now, &before), [], "what was before, after {cause}");
            }
            Err(_) => {}
        }
    }
    planted(&said);
    restored(truthful, &before, &place.scope).await;
    restored(truthful, &place.states[0], &place.scope).await;
}

/// Restores a state in a kernel without alterations.
async fn restored(kernel: &Kernel, state: &State, scope: &Scope) {
    let back = kernel.go_back(state, scope).await;
    assert!(back.is_ok(), "{}", back.expect_err("it was refused"));
}

/// The planted mistake: a change that ends with an error number that no seed has.
#[cfg(feature = "planted")]
fn planted<T>(said: &Result<T, ApplyError>) {
    let text = said.as_ref().err().map(ToString::to_string);
    let named = text.is_some_and(|text| text.contains("EMLINK"));
    assert!(!named, "the planted mistake: too many links");
}

#[cfg(not(feature = "planted"))]
fn planted<T>(_: &Result<T, ApplyError>) {}
