// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan is carried out by a kernel that refuses one of its requests, and whose answers
//! are changed on their way. What was refused is said to be done, and what was done to be
//! refused. Dumps are interrupted; datagrams come twice, are cut, or have wrong bits.
//!
//! The kernel is this machine's, in a network namespace. What must hold beyond "no panic":
//!
//! - The change ends.
//! - Where the kernel said nothing wrong of what it holds, it holds what `apply` says: the
//!   change, or what was before.
//! - A kernel that tells the truth can be brought back to what was before.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use tokio::runtime::{Builder, Runtime};
use weirgate_kernel::{Alteration, AlteredAnswer, ApplyError, Fault, Kernel, Scope};
use weirgate_plan::{Options, plan_with, verify};
use weirgate_state::{Capabilities, State};

/// Two policies that differ in classes, queues and rules.
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

/// Bytes of a change of an answer: how many datagrams after the one before, what becomes
/// of it, and two more.
const CHANGE: usize = 4;

/// The namespace, and states that it can have.
struct Place {
    runtime: Runtime,
    namespace: File,
    /// Its kernel, which tells the truth.
    truthful: Kernel,
    /// Nothing, and what the policies say.
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

/// A namespace with a device `wan`, whose thread is over: the file holds it.
fn place() -> Place {
    let made = thread::spawn(|| {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "it makes a network namespace, which needs root");
        // SAFETY: CLONE_NEWNET alone: the thread shares all else, and memory safety does
        // not rest on which network namespace a thread is in.
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

/// What a policy says of qdiscs, classes and rules. A device's offloads are another
/// family's, whose answers are not changed here.
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

/// The changes of a script, and whether a kernel might say all of that.
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

/// From one state to another, and back to nothing.
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

/// Brings a kernel that tells the truth to a state.
async fn restored(kernel: &Kernel, state: &State, scope: &Scope) {
    let back = kernel.go_back(state, scope).await;
    assert!(back.is_ok(), "{}", back.expect_err("it was refused"));
}

/// The planted mistake: a change that ends with an error of a number that no seed has.
#[cfg(feature = "planted")]
fn planted<T>(said: &Result<T, ApplyError>) {
    let text = said.as_ref().err().map(ToString::to_string);
    let named = text.is_some_and(|text| text.contains("EMLINK"));
    assert!(!named, "the planted mistake: too many links");
}

#[cfg(not(feature = "planted"))]
fn planted<T>(_: &Result<T, ApplyError>) {}
