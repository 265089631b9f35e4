// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest: refusals and kills at every request of plans that restore marks
//! of arriving packets and reset kept decisions of connections.

use crate::inside::{exchange, kept, outside, rt};
use std::process::Command;
use weirgate_compile::compile;
use weirgate_kernel::{ApplyError, Fault, Kernel, Scope};
use weirgate_plan::{Action, Options, Plan, plan_with, verify, with_former};
use weirgate_state::{Capabilities, State};

/// The variable that tells a child which change to make, and at which request to die.
const ORDER: &str = "WEIRGATE_TEST_ORDER";

const OVER: Options<'static> = Options {
    previous: None,
    replace_foreign: true,
};

/// Returns the state of the policy, with a rule for this code point.
fn desired(code_point: &str) -> State {
    let text = kept().replace("\"EF\"", &format!("\"{code_point}\""));
    let (policy, problems) = weirgate_policy::parse(&text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    compile(&policy, &Capabilities::all()).0.unwrap()
}

/// Returns three states: without weirgate, with one policy, and with the other.
async fn states(kernel: &Kernel) -> [State; 3] {
    let (one, other) = (desired("EF"), desired("AF41"));
    let now = kernel.observe(&Scope::of([&one, &other])).await.unwrap();
    let mut bare = now.clone();
    bare.tables.clear();
    bare.hooks.clear();
    bare.devices.retain(|_, device| !device.owned_ifb);
    for device in bare.devices.values_mut() {
        device.root = None;
        device.offloads = None;
    }
    let none = with_former(&State::default(), &bare);
    [none, with_former(&one, &bare), with_former(&other, &bare)]
}

async fn planned(kernel: &Kernel, scope: &Scope, wanted: &State) -> Plan {
    let now = kernel.observe(scope).await.unwrap();
    plan_with(&now, wanted, &OVER).unwrap()
}

/// Applies a state, and opens connections that keep a decision of each rule.
async fn stand(kernel: &Kernel, scope: &Scope, state: &State) {
    let plan = planned(kernel, scope, state).await;
    kernel.apply(&plan).await.unwrap();
    exchange(5_001, 46);
    exchange(5_002, 34);
}

/// Asserts, after any failure, the exact state, and that the link carries packets.
async fn is(kernel: &Kernel, scope: &Scope, state: &State, when: &str) {
    let left = kernel.observe(scope).await.unwrap();
    assert_eq!(verify(&left, state), [], "{when}");
    exchange(5_003, 46);
}

#[test]
#[ignore = "runs in the guest"]
fn every_request() {
    outside();
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        let states = states(&kernel).await;
        let scope = Scope::of(&states);
        // Offloads are switched off once and stay off, so that a change has the same requests every
        // time.
        stand(&kernel, &scope, &states[1]).await;
        let mut kinds = [false; 2];
        for (from, to) in [(0, 1), (1, 2), (2, 1), (2, 0)] {
            let (before, after) = (&states[from], &states[to]);
            stand(&kernel, &scope, before).await;
            let plan = planned(&kernel, &scope, after).await;
            for step in &plan.steps {
                kinds[0] |= matches!(step.action, Action::SetHooks { .. });
                kinds[1] |= matches!(step.action, Action::ForgetDecisions { .. });
            }
            let mut requests = 0;
            for number in 0.. {
                let when = format!("{from} to {to}, request {number} refused");
                kernel.inject(Some(Fault::Refused(number)));
                let plan = planned(&kernel, &scope, after).await;
                match kernel.apply(&plan).await {
                    Ok(_) => {
                        requests = number;
                        break;
                    }
                    Err(ApplyError::Restored { .. }) => {
                        is(&kernel, &scope, before, &when).await;
                        stand(&kernel, &scope, before).await;
                    }
                    Err(other) => panic!("{when}: {other}"),
                }
            }
            kernel.inject(None);
            assert!(requests > 1, "{from} to {to}: {requests} requests");
            is(&kernel, &scope, after, "nothing failed").await;
            for number in 0..requests {
                let when = format!("{from} to {to}, killed at request {number}");
                stand(&kernel, &scope, before).await;
                // The child inherits this thread's namespace.
                let ended = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "faults::victim", "--ignored"])
                    .env(ORDER, format!("{from} {to} {number}"))
                    .output()
                    .unwrap();
                assert!(!ended.status.success(), "{when}");
                kernel.go_back(before, &scope).await.unwrap();
                is(&kernel, &scope, before, &when).await;
            }
        }
        assert_eq!(kinds, [true; 2], "the plans have what is tested here");
        stand(&kernel, &scope, &states[0]).await;
    });
}

#[test]
#[ignore = "runs in the guest, started by the other"]
fn victim() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let numbers: Vec<usize> = order.split(' ').map(|word| word.parse().unwrap()).collect();
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        let states = states(&kernel).await;
        let plan = planned(&kernel, &Scope::of(&states), &states[numbers[1]]).await;
        kernel.inject(Some(Fault::Killed(numbers[2])));
        kernel.apply(&plan).await.unwrap();
    });
}
