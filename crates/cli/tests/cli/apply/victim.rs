// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies a policy in a separate process, with a fault at one of its requests. The tests of
//! [`crate::apply::safe`] start it in a namespace.

use crate::stream::FAR_ADDRESS as FAR;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use weirgate_keep::{KeepError, Request, Site};
use weirgate_kernel::{ApplyError, Fault, Kernel, Scope};
use weirgate_plan::verify;
use weirgate_state::State;

/// The variable with the task: `refuse`, `miss`, `outlast`, `kill NUMBER`, `vanish NUMBER` or
/// `plain`.
pub const TASK: &str = "WEIRGATE_TEST_TASK";
/// The variable with the path of the policy to apply.
pub const POLICY: &str = "WEIRGATE_TEST_POLICY";
/// The variable with the path of the program that runs as guard.
pub const PROGRAM: &str = "WEIRGATE_TEST_PROGRAM";

async fn wanted(kernel: &Kernel) -> State {
    let text = std::fs::read_to_string(std::env::var(POLICY).unwrap()).unwrap();
    let (policy, problems) = weirgate_policy::parse(&text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
    let capabilities = kernel.capabilities().await.unwrap();
    let (state, problems) = weirgate_compile::compile(&policy, &capabilities);
    state.unwrap_or_else(|| panic!("{problems:?}"))
}

async fn apply(site: &Site, wanted: &State, fault: Option<Fault>) -> Result<(), KeepError> {
    let lock = site.lock().await?;
    let planned = site.plan(wanted, false).await?;
    site.kernel.inject(fault);
    let made = site.apply(&lock, planned, Request::default()).await;
    made.map(|_| ())
}

/// Lets each request in turn fail with the given fault. Each time, the former state must be
/// restored and a packet must pass. Returns the number of requests.
async fn refuse(site: &Site, wanted: &State, fault: fn(usize) -> Fault) -> usize {
    let scope = Scope::of([wanted]);
    let before = site.kernel.observe(&scope).await.unwrap();
    for number in 0.. {
        match apply(site, wanted, Some(fault(number))).await {
            Ok(()) => {
                let after = site.kernel.observe(&scope).await.unwrap();
                assert_eq!(verify(&after, wanted), []);
                return number;
            }
            Err(KeepError::Apply(error)) => {
                assert!(matches!(*error, ApplyError::Restored { .. }), "{error}");
                let after = site.kernel.observe(&scope).await.unwrap();
                assert_eq!(
                    ordered(after),
                    ordered(before.clone()),
                    "after {:?}",
                    fault(number)
                );
                assert!(passes(), "after {:?}", fault(number));
            }
            Err(other) => panic!("request {number}: {other}"),
        }
    }
    unreachable!("the requests of a plan come to an end");
}

/// Sorts the sets of a state: the kernel lists them in order of creation, which has no meaning.
fn ordered(mut state: State) -> State {
    for table in &mut state.tables {
        table.sets.sort_by(|one, other| one.name.cmp(&other.name));
    }
    state
}

/// Returns whether an echo request to the far side is answered.
fn passes() -> bool {
    let ping = ["-c", "1", "-W", "2", "-n", "-q", FAR];
    let ended = Command::new("ping").args(ping).output().unwrap();
    ended.status.success()
}

/// Deletes the link's device just before a request is made.
#[allow(clippy::print_stdout, reason = "whoever started this process reads it")]
fn vanish_at(kernel: &Kernel, number: usize) {
    let made = AtomicUsize::new(0);
    kernel.witness(Box::new(move |_| {
        if made.fetch_add(1, Ordering::Relaxed) == number {
            let words = ["link", "del", "wan"];
            let ended = Command::new("ip").args(words).status().unwrap();
            assert!(ended.success());
            println!("vanished");
        }
    }));
}

#[test]
fn victim() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let program = std::env::var(PROGRAM).unwrap().into();
        let site = Site::open(Path::new("/run/kept"), program).unwrap();
        let wanted = wanted(&site.kernel).await;
        match task.split_once(' ') {
            Some(("kill", number)) => {
                let fault = Fault::Killed(number.parse().unwrap());
                apply(&site, &wanted, Some(fault)).await.unwrap();
                println!("not killed");
            }
            Some(("vanish", number)) => {
                vanish_at(&site.kernel, number.parse().unwrap());
                let made = apply(&site, &wanted, None).await;
                println!("made {}", made.is_ok());
                if let Err(error) = made {
                    println!("{error}");
                }
            }
            _ if task == "refuse" => {
                let refused = refuse(&site, &wanted, Fault::Refused).await;
                println!("requests {refused}");
            }
            _ if task == "outlast" => {
                println!("{}", apply(&site, &wanted, None).await.unwrap_err());
            }
            _ if task == "miss" => {
                let missed = refuse(&site, &wanted, Fault::Missing).await;
                println!("requests {missed}");
            }
            _ => {
                apply(&site, &wanted, None).await.unwrap();
                println!("requests {}", site.kernel.requests());
            }
        }
    });
}
