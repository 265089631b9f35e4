// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A namespace with one veth pair `wan` - `far`, and states for it.

use std::future::Future;
use std::process::Command;
use weirgate_kernel::{Kernel, Scope};
use weirgate_plan::{Options, Step, plan_with};
use weirgate_state::{
    Bfifo, Chain, Device, DeviceName, Hook, Htb, HtbClass, Match, Offloads, Origin, Pfifo, Qdisc,
    QdiscKind, Rule, Stab, State, Table, port_protocols,
};
use weirgate_units::{Handle, Rate, Size, Span};

/// Runs a test in a new network namespace, on a thread that ends with it.
pub fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce(Kernel) -> F + Send + 'static) {
    assert!(
        rustix::process::geteuid().is_root(),
        "these tests need root: they make network namespaces and devices"
    );
    let body = move || {
        // SAFETY: CLONE_NEWNET alone: the thread shares everything else, and memory safety does not
        // depend on the thread's network namespace.
        #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
        unsafe {
            rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).unwrap();
        }
        run("ip link set lo up");
        run("ip link add wan type veth peer name far");
        run("ip link set wan up");
        run("ip link set far up");
        run("ip addr add 10.9.0.1/24 dev wan");
        run("ip addr add 2001:db8::1/64 dev wan nodad");
        run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev wan");
        run("ip neigh add 2001:db8::2 lladdr 02:00:00:00:00:02 dev wan");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { test(Kernel::open().unwrap()).await });
    };
    if let Err(panic) = std::thread::spawn(body).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a command in the thread's namespace and returns its output.
pub fn run(line: &str) -> String {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

pub fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

pub fn origin(line: u32) -> Origin {
    Origin::new(line, "a test")
}

/// A size table that no tc command can create: three slots and a scale.
pub fn stab() -> Stab {
    Stab {
        overhead: -4,
        cell_align: -1,
        cell_log: 6,
        size_log: 0,
        mpu: 53,
        mtu: 2047,
        data: (1..=32).map(|slot| slot * 53 + 7).collect(),
    }
}

pub fn class(major: u16, minor: u16, parent: u16, leaf: Option<Qdisc>) -> HtbClass {
    HtbClass {
        id: Handle::new(major, minor),
        parent: Handle::new(major, parent),
        rate: Rate::kbit(1_000),
        ceil: Rate::kbit(2_000),
        buffer: Span::from_nanos(64),
        cbuffer: Span::from_micros(100),
        prio: 3,
        quantum: 1_600,
        leaf: leaf.map(Box::new),
        origin: origin(u32::from(minor)),
    }
}

pub fn qdisc(major: u16, kind: QdiscKind) -> Qdisc {
    Qdisc {
        handle: Handle::new(major, 0),
        stab: None,
        kind,
        origin: origin(1),
    }
}

pub fn pfifo(major: u16, limit: u32) -> Qdisc {
    qdisc(major, QdiscKind::Pfifo(Pfifo { limit }))
}

pub fn bfifo(major: u16, bytes: u64) -> Qdisc {
    let limit = Size::bytes(bytes);
    qdisc(major, QdiscKind::Bfifo(Bfifo { limit }))
}

pub fn htb(major: u16, default_minor: u16, classes: Vec<HtbClass>) -> Qdisc {
    qdisc(
        major,
        QdiscKind::Htb(Htb {
            default_minor,
            r2q: 10,
            direct: Some(0),
            classes,
        }),
    )
}

/// Returns a gate with an inner tree: classes 2:10 and 2:20.
pub fn tree() -> Qdisc {
    let inner = htb(
        2,
        0x20,
        vec![
            class(2, 0x10, 0, Some(pfifo(0x10, 50))),
            class(2, 0x20, 0, Some(bfifo(0x20, 30_000))),
        ],
    );
    Qdisc {
        stab: Some(stab()),
        ..htb(1, 1, vec![class(1, 1, 0, Some(inner))])
    }
}

pub fn device(root: Option<Qdisc>, offloads: Option<Offloads>) -> Device {
    Device {
        owned_ifb: false,
        offloads,
        root,
        origin: origin(2),
    }
}

pub fn rule(matches: Vec<Match>, class: Handle) -> Rule {
    Rule::classify(matches, class, origin(7)).guarded()
}

pub fn outgoing(rules: Vec<Rule>) -> Table {
    Table {
        netdev: false,
        name: String::from("weirgate"),
        sets: vec![port_protocols()].into(),
        chains: vec![Chain {
            name: String::from("up"),
            hook: Hook::Postrouting {
                device: name("wan"),
            },
            rules: rules.into(),
        }],
    }
}

pub fn arriving(rules: Vec<Rule>) -> Table {
    Table {
        netdev: true,
        name: String::from("weirgate"),
        sets: vec![port_protocols()].into(),
        chains: vec![Chain {
            name: String::from("down"),
            hook: Hook::Ingress {
                device: name("far"),
                redirect_to: name("ifb-far"),
            },
            rules: rules.into(),
        }],
    }
}

/// Returns a full state: `wan` is shaped at egress, `far` at ingress through an IFB.
pub fn whole(rules: &[Rule]) -> State {
    let off = Offloads {
        tso: false,
        gso: false,
        gro: false,
        segments: Some(1),
    };
    let ifb = Device {
        owned_ifb: true,
        ..device(Some(tree()), None)
    };
    State {
        devices: [
            (name("wan"), device(Some(tree()), Some(off))),
            (name("far"), device(None, Some(off))),
            (name("ifb-far"), ifb),
        ]
        .into(),
        tables: vec![outgoing(rules.to_vec()), arriving(rules.to_vec())],
        ..State::default()
    }
}

pub async fn observe(kernel: &Kernel, states: &[&State]) -> State {
    kernel
        .observe(&Scope::of(states.iter().copied()))
        .await
        .unwrap()
}

/// Returns a state of `wan` alone, with this root.
pub fn only(root: Option<Qdisc>) -> State {
    State {
        devices: [(name("wan"), device(root, None))].into(),
        tables: Vec::new(),
        ..State::default()
    }
}

/// Plans, applies and verifies; returns the steps taken.
pub async fn apply(kernel: &Kernel, desired: &State, previous: Option<&State>) -> Vec<Step> {
    let before = observe(kernel, &[desired, previous.unwrap_or(desired)]).await;
    let options = Options {
        previous,
        replace_foreign: false,
    };
    let plan = plan_with(&before, desired, &options).unwrap();
    kernel.apply(&plan).await.unwrap();
    plan.steps
}

/// Returns the ids of the programs at a hook of `wan`, `ingress` or `egress`.
pub fn numbers(hook: &str) -> Vec<String> {
    let shown = run(&format!("tc filter show dev wan {hook}"));
    let parts = shown.split(" id ").skip(1);
    parts
        .filter_map(|part| part.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}
