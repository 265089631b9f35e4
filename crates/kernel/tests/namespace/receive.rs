// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the policing of senders: it is applied completely, or nothing changes; changes without
//! replacing the programs; refused datagrams.

use crate::harness::{in_namespace, name, numbers, observe, only, run};
use weirgate_kernel::Fault;
use weirgate_plan::{plan, verify};
use weirgate_state::{
    Chain, Datagrams, Field, Frame, Hook, HookPrograms, Match, Measured, Origin, Rule, RuleVerdict,
    SparedMark, State, Table, UDP, WindowAlgorithm, Windows,
};
use weirgate_units::{Handle, Rate, Size, Span};

const MEASURED: Measured = Measured {
    chunk: Span::from_millis(100),
    chunks: 30,
    age: Span::from_secs(5),
};

pub fn windows(kbit: u64) -> Windows {
    Windows {
        rate: Rate::kbit(kbit),
        algorithm: WindowAlgorithm::Segments,
        horizon: Span::from_secs(1),
        measured: MEASURED,
        spared: SparedMark {
            mark: 0x100,
            mask: 0xf00,
        },
        acknowledgements: Handle::new(2, 0x10),
        classes: vec![(Handle::new(2, 0x11), Rate::default())],
        ..Windows::default()
    }
}

fn datagrams(kbit: u64) -> Datagrams {
    Datagrams {
        rate: Rate::kbit(kbit),
        burst: Size::bytes(30_000),
        drop: Span::from_secs(2),
        warn: Span::from_secs(2),
        measured: MEASURED,
        refuse: 0x0800_0000,
        ..Datagrams::default()
    }
}

fn receiving(windows: Option<Windows>, datagrams: Option<Datagrams>) -> State {
    let refuse = Rule {
        frame: Frame::Plain,
        matches: vec![
            Match::one(Field::Protocol, u128::from(UDP)),
            Match::text(Field::InputDevice, "wan"),
            Match::one(Field::Mark { mask: 0x0800_0000 }, 0x0800_0000),
        ],
        counter: Some("refused".to_owned()),
        effects: Vec::new(),
        verdict: RuleVerdict::Refuse,
        origin: Origin::new(3, "refused"),
    };
    let table = Table {
        name: "weirgate".to_owned(),
        chains: vec![Chain {
            name: "refused".to_owned(),
            hook: Hook::Prerouting,
            rules: vec![refuse].into(),
        }],
        ..Table::default()
    };
    let tables = datagrams.is_some().then_some(table);
    let place = HookPrograms {
        windows: windows.map(Box::new),
        datagrams: datagrams.map(Box::new),
        ..HookPrograms::default()
    };
    State {
        hooks: [(name("wan"), place)].into(),
        tables: tables.into_iter().collect(),
        ..only(None)
    }
}

#[test]
fn they_come_are_told_and_go() {
    in_namespace(|kernel| async move {
        let desired = receiving(Some(windows(4_000)), Some(datagrams(2_000)));
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        assert_eq!(forward.steps.len(), 2, "{forward:?}");
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        assert_eq!((numbers("ingress").len(), numbers("egress").len()), (2, 1));
        let rules = run("nft list table inet weirgate");
        assert!(rules.contains("reject"), "{rules}");
        let known = kernel.received(&name("wan")).await.unwrap();
        assert!(known.windows.is_some_and(|(_, all)| all.is_empty()));
        assert_eq!(known.streams, Some(Vec::new()));
        let now = observe(&kernel, &[&desired]).await;
        assert_eq!(plan(&now, &desired).unwrap().steps, []);
        // The programs' configuration changes, not the programs.
        let programs = (numbers("ingress"), numbers("egress"));
        let other = receiving(Some(windows(3_000)), Some(datagrams(1_000)));
        let change = plan(&now, &other).unwrap();
        assert_eq!(change.steps.len(), 1, "{change:?}");
        let applied = kernel.apply(&change).await.unwrap();
        assert_eq!(verify(&applied.after, &other), []);
        assert_eq!((numbers("ingress"), numbers("egress")), programs);
        // One of the two is removed; the other stays.
        let fewer = receiving(Some(windows(3_000)), None);
        let now = observe(&kernel, &[&other]).await;
        let applied = kernel.apply(&plan(&now, &fewer).unwrap()).await.unwrap();
        assert_eq!(verify(&applied.after, &fewer), []);
        assert_eq!(numbers("egress"), programs.1);
        assert_eq!(numbers("ingress").len(), 1);
        // A removed program is restored, with its counterpart.
        run("tc filter del dev wan egress");
        let now = observe(&kernel, &[&fewer]).await;
        let mended = kernel.apply(&plan(&now, &fewer).unwrap()).await.unwrap();
        assert_eq!(verify(&mended.after, &fewer), []);
        assert_ne!(numbers("egress"), programs.1);
        let now = observe(&kernel, &[&fewer]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert!(!run("tc qdisc show dev wan").contains("clsact"));
        let known = kernel.received(&name("wan")).await.unwrap();
        assert_eq!((known.windows, known.streams), (None, None));
    });
}

#[test]
fn every_refusal_leaves_what_was_there() {
    in_namespace(|kernel| async move {
        let desired = receiving(Some(windows(4_000)), Some(datagrams(2_000)));
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        for number in 0..4 {
            kernel.inject(Some(Fault::Refused(number)));
            kernel.apply(&forward).await.unwrap_err();
            kernel.inject(None);
            assert_eq!(observe(&kernel, &[&desired]).await, before, "{number}");
            assert!(!run("tc qdisc show dev wan").contains("clsact"));
        }
    });
}

/// Returns the programs at this namespace's hooks that are attached by tcx, by the names of their
/// pins.
fn by_tcx() -> Vec<String> {
    let own = format!("{}-", weirgate_kernel::namespace_cookie().unwrap());
    let pins = std::fs::read_dir("/sys/fs/bpf/weirgate/tcx");
    let names = pins.into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&own)).collect();
    names.sort();
    names
}

/// An `ingress` qdisc of another program handles arriving packets, whatever is attached for
/// outgoing ones.
#[test]
fn beside_an_ingress_qdisc_what_leaves_is_by_tcx() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan ingress");
        run("tc filter add dev wan ingress pref 7 protocol ip u32 match u32 0 0 classid 1:1");
        let shown = || run("tc qdisc show dev wan") + &run("tc filter show dev wan ingress");
        let before_shown = shown();
        let desired = receiving(Some(windows(10_000)), Some(datagrams(2_000)));
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        // The programs for arriving packets are filters, each once.
        assert_eq!(numbers("ingress").len(), 2);
        let there = by_tcx();
        assert_eq!(there.len(), 1, "{there:?}");
        assert!(
            there[0].contains("-egress-89-weirgate-window-out-"),
            "{there:?}"
        );
        let known = kernel.received(&name("wan")).await.unwrap();
        assert!(known.windows.is_some_and(|(_, all)| all.is_empty()));
        // Their configuration changes, and both stay attached.
        let other = receiving(Some(windows(9_000)), Some(datagrams(2_000)));
        let change = plan(&applied.after, &other).unwrap();
        let applied = kernel.apply(&change).await.unwrap();
        assert_eq!(verify(&applied.after, &other), []);
        assert_eq!(by_tcx(), there);
        // A removed program is restored.
        std::fs::remove_file(format!("/sys/fs/bpf/weirgate/tcx/{}", there[0])).unwrap();
        let now = observe(&kernel, &[&other]).await;
        assert!(!verify(&now, &other).is_empty());
        kernel.apply(&plan(&now, &other).unwrap()).await.unwrap();
        assert_eq!(by_tcx(), there);
        let now = observe(&kernel, &[&other]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert_eq!((shown(), by_tcx()), (before_shown, Vec::new()));
    });
}

/// An `ingress` qdisc lists all filters with the parent that was named last, by any program.
#[test]
fn filters_of_others_keep_the_parent_that_they_were_made_with() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan ingress");
        let other = |place: &str, pref: u32| {
            let what = "protocol ip u32 match u32 0 0 classid 1:1";
            run(&format!("tc filter add dev wan {place} pref {pref} {what}"));
        };
        other("parent ffff:", 7);
        let shown = || run("tc filter show dev wan ingress");
        let before_shown = shown();
        assert!(before_shown.contains("parent ffff:"), "{before_shown}");
        let desired = receiving(Some(windows(10_000)), Some(datagrams(2_000)));
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        assert!(shown().contains("filter parent ffff: protocol ip pref 7"));
        // Whatever parent other programs use next, weirgate's filters are recognised.
        for place in ["ingress", "egress", "parent ffff:"] {
            other(place, 9);
            let now = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&now, &desired), [], "{place}");
            run(&format!("tc filter del dev wan {place} protocol ip pref 9"));
        }
        let now = observe(&kernel, &[&desired]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert_eq!(shown(), before_shown);
    });
}

/// If other programs replace their qdisc, the programs are attached as filters again.
#[test]
fn what_is_by_tcx_follows_the_place_of_others() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan ingress");
        let desired = receiving(Some(windows(10_000)), None);
        let before = observe(&kernel, &[&desired]).await;
        kernel
            .apply(&plan(&before, &desired).unwrap())
            .await
            .unwrap();
        run("tc qdisc del dev wan ingress");
        for others in ["true", "tc qdisc replace dev wan clsact"] {
            run(others);
            let now = observe(&kernel, &[&desired]).await;
            let mended = kernel.apply(&plan(&now, &desired).unwrap()).await.unwrap();
            assert_eq!(verify(&mended.after, &desired), []);
            assert_eq!(
                (numbers("egress").len(), by_tcx()),
                (1, Vec::new()),
                "{others}"
            );
            run("tc qdisc del dev wan clsact");
        }
    });
}

#[test]
fn every_refusal_beside_an_ingress_qdisc_leaves_what_was_there() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan ingress");
        let desired = receiving(Some(windows(4_000)), Some(datagrams(2_000)));
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        for number in 0..3 {
            kernel.inject(Some(Fault::Refused(number)));
            kernel.apply(&forward).await.unwrap_err();
            kernel.inject(None);
            assert_eq!(observe(&kernel, &[&desired]).await, before, "{number}");
            assert_eq!(by_tcx(), Vec::<String>::new());
        }
    });
}

/// Programs of one device cannot be among filters of a shared block.
#[test]
fn beside_shared_filters_all_are_by_tcx() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan ingress_block 21 egress_block 22 clsact");
        run("tc filter add block 21 pref 88 protocol ip u32 match u32 0 0 classid 1:1");
        let shown = || run("tc qdisc show dev wan") + &run("tc filter show block 21");
        let before_shown = shown();
        let desired = receiving(Some(windows(10_000)), Some(datagrams(2_000)));
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        assert_eq!(by_tcx().len(), 3);
        assert_eq!(shown(), before_shown);
        kernel
            .apply(&plan(&applied.after, &before).unwrap())
            .await
            .unwrap();
        assert_eq!((shown(), by_tcx()), (before_shown.clone(), Vec::new()));
        // A filter that restores marks is not a program.
        let mut marked = desired;
        for place in marked.hooks.values_mut() {
            place.restore = Some(0xff_0000);
        }
        let error = kernel.apply(&plan(&before, &marked).unwrap()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("K318: wan: its `clsact` qdisc"), "{error}");
        assert_eq!((shown(), by_tcx()), (before_shown, Vec::new()));
    });
}
