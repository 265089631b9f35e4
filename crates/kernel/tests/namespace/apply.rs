// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests applying, changing, failing and removing.

use crate::harness::{
    apply, bfifo, class, device, htb, in_namespace, name, observe, only, pfifo, rule, run, tree,
    whole,
};
use std::os::fd::AsFd;
use weirgate_kernel::{ApplyError, Kernel, Scope};
use weirgate_plan::{Action, Options, plan, plan_with, verify, with_former};
use weirgate_state::{Field, FqCodel, HtbClass, Match, Offloads, Qdisc, QdiscKind, State};
use weirgate_units::{Handle, Rate, Span};

/// Returns every device with its MTU and qdisc. Its operational state is left out, because the
/// kernel updates it asynchronously.
fn links() -> Vec<String> {
    let text = run("ip -o link show");
    let words = |line: &str| -> String {
        let mut words: Vec<&str> = line.split_whitespace().take(7).collect();
        words.remove(2);
        words.join(" ")
    };
    text.lines().map(words).collect()
}

#[test]
fn everything_is_read_back_and_removed_without_trace() {
    in_namespace(|kernel| async move {
        let rules = [
            rule(vec![Match::one(Field::Protocol, 1)], Handle::new(2, 0x10)),
            rule(vec![], Handle::new(2, 0x20)),
        ];
        let desired = whole(&rules);
        let scope = Scope::of([&desired]);
        let former = kernel.observe(&scope).await.unwrap();
        let links = links();
        apply(&kernel, &desired, None).await;
        let after = kernel.observe(&scope).await.unwrap();
        assert_eq!(verify(&after, &desired), vec![]);
        assert_eq!(plan(&after, &desired).unwrap().steps, vec![]);
        assert!(run("tc qdisc show dev wan").contains("htb 1: root"));
        assert!(run("nft list ruleset").contains("line 7: a test"));

        let removal = plan(&after, &with_former(&State::default(), &former)).unwrap();
        kernel.apply(&removal).await.unwrap();
        assert_eq!(kernel.observe(&scope).await.unwrap(), former);
        assert_eq!(run("nft list ruleset"), "");
        assert_eq!(self::links(), links);
        assert!(run("tc qdisc show dev wan").contains("noqueue 0: root"));
    });
}

#[test]
fn changes_in_place_keep_the_tree() {
    in_namespace(|kernel| async move {
        let first = only(Some(tree()));
        apply(&kernel, &first, None).await;
        run("ping -c 3 -i 0.01 -W 0.1 -q 127.0.0.1");
        let mut root = tree();
        if let Some(stab) = &mut root.stab {
            stab.data[0] += 1;
        }
        if let QdiscKind::Htb(outer) = &mut root.kind {
            outer.classes[0].rate = Rate::kbit(1_500);
            if let Some(leaf) = &mut outer.classes[0].leaf
                && let QdiscKind::Htb(inner) = &mut leaf.kind
            {
                inner.classes[0].prio = 0;
                inner.classes[1].leaf = Some(Box::new(bfifo(0x20, 40_000)));
                inner
                    .classes
                    .push(class(2, 0x30, 0x10, Some(pfifo(0x30, 5))));
                inner.classes[0].leaf = None;
            }
        }
        let second = only(Some(root));
        let steps = apply(&kernel, &second, Some(&first)).await;
        let kinds: Vec<String> = steps.iter().map(|s| s.action.to_string()).collect();
        assert!(
            !steps.iter().any(
                |s| matches!(&s.action, Action::DeleteQdisc { handle, .. } if handle.major < 3)
            ),
            "{kinds:?}"
        );
        // And back, where a leaf must return to 2:10.
        apply(&kernel, &first, Some(&second)).await;
        // Another default class requires a new root with the same handle.
        let mut third = tree();
        if let QdiscKind::Htb(outer) = &mut third.kind {
            outer.default_minor = 2;
        }
        apply(&kernel, &only(Some(third)), Some(&first)).await;
        // A root with another handle replaces it in one operation.
        let fourth = only(Some(htb(9, 1, vec![class(9, 1, 0, Some(pfifo(0x10, 3)))])));
        let steps = apply(&kernel, &fourth, Some(&first)).await;
        assert!(matches!(steps[0].action, Action::ReplaceQdisc { .. }));
    });
}

#[test]
fn a_refused_step_brings_the_former_state_back() {
    in_namespace(|kernel| async move {
        let first = only(Some(tree()));
        apply(&kernel, &first, None).await;
        // Nine levels of classes: HTB has eight (`TC_HTB_MAXDEPTH`).
        let mut deep: Vec<HtbClass> = (1..=9_u16).map(|id| class(1, id, id - 1, None)).collect();
        deep[8].leaf = Some(Box::new(pfifo(0x99, 5)));
        let second = only(Some(htb(1, 9, deep)));
        let before = observe(&kernel, &[&first, &second]).await;
        let options = Options {
            previous: Some(&first),
            replace_foreign: false,
        };
        let plan = plan_with(&before, &second, &options).unwrap();
        let error = kernel.apply(&plan).await.unwrap_err();
        assert!(matches!(error, ApplyError::Restored { .. }), "{error}");
        let text = error.to_string();
        for part in ["K310", "class 1:9", "EINVAL", "tree is too deep", "line 9"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let after = observe(&kernel, &[&first, &second]).await;
        assert_eq!(verify(&after, &first), vec![]);
    });
}

#[test]
fn an_unknown_qdisc_is_refused_by_name() {
    in_namespace(|kernel| async move {
        let leaf = Qdisc {
            kind: QdiscKind::FqCodel(FqCodel {
                limit: 1,
                flows: 1,
                target: Span::from_millis(5),
                interval: Span::from_millis(100),
                quantum: 300,
                ecn: false,
                memory_limit: 1,
                ce_threshold: None,
            }),
            ..pfifo(0x10, 1)
        };
        let desired = only(Some(htb(1, 1, vec![class(1, 1, 0, Some(leaf))])));
        let before = observe(&kernel, &[&desired]).await;
        let known = kernel.capabilities().await.unwrap().has_qdisc("fq_codel");
        let result = kernel.apply(&plan(&before, &desired).unwrap()).await;
        assert_eq!(result.is_ok(), known);
        if let Err(error) = result {
            assert!(error.to_string().contains("ENOENT"), "{error}");
            assert_eq!(observe(&kernel, &[&desired]).await, before);
        }
    });
}

#[test]
fn what_cannot_be_put_back_is_reported() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan root handle 5: htb default 1");
        run("tc class add dev wan parent 5: classid 5:1 htb rate 1mbit");
        // weirgate does not store actions of filters.
        let action = "action mirred egress redirect dev far";
        run(&format!(
            "tc filter add dev wan parent 5: u32 match u32 0 0 {action}"
        ));
        let mut deep: Vec<HtbClass> = (1..=9_u16).map(|id| class(1, id, id - 1, None)).collect();
        deep[8].leaf = Some(Box::new(pfifo(0x99, 5)));
        let desired = only(Some(htb(1, 9, deep)));
        let before = observe(&kernel, &[&desired]).await;
        let problems = plan(&before, &desired).unwrap_err();
        assert_eq!(problems[0].code, "K302");
        let options = Options {
            previous: None,
            replace_foreign: true,
        };
        let forced = plan_with(&before, &desired, &options).unwrap();
        let error = kernel.apply(&forced).await.unwrap_err();
        assert!(matches!(error, ApplyError::Lost { .. }), "{error}");
        assert!(error.to_string().contains("`htb`"), "{error}");
        // The old state cannot be restored, but weirgate can be removed.
        let wanted = with_former(&State::default(), &before);
        apply(&kernel, &wanted, Some(&desired)).await;
        assert!(run("tc qdisc show dev wan").contains("noqueue"));
    });
}

#[test]
fn foreign_filters_make_a_tree_foreign() {
    in_namespace(|kernel| async move {
        let mut inner = class(2, 0x10, 0, None);
        inner.ceil = Rate::kbit(3_000);
        let below = class(2, 0x20, 0x10, Some(pfifo(0x20, 9)));
        let scheduler = htb(2, 0x20, vec![inner, below]);
        let desired = only(Some(htb(1, 1, vec![class(1, 1, 0, Some(scheduler))])));
        apply(&kernel, &desired, None).await;
        // At the root, at a qdisc below it, and at a class with children.
        for place in ["1:", "2:", "2:10"] {
            let filter = format!("dev wan parent {place} protocol ip pref 7 u32");
            run(&format!("tc filter add {filter} match u32 0 0 flowid 2:20"));
            let after = observe(&kernel, &[&desired]).await;
            let root = after.devices[&name("wan")].root.clone().unwrap();
            let QdiscKind::Listed(listed) = &root.kind else {
                panic!("{place}: {root:?}");
            };
            assert_eq!(listed.name, "htb", "{place}");
            assert_eq!(plan(&after, &only(None)).unwrap_err()[0].code, "K302");
            run(&format!("tc filter del {filter}"));
            let after = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&after, &desired), vec![], "{place}");
        }
    });
}

#[test]
fn a_table_that_was_meddled_with_is_seen_and_mended() {
    in_namespace(|kernel| async move {
        let rules = [rule(
            vec![Match::range(Field::SourcePort, 5, 9)],
            Handle::new(2, 0x10),
        )];
        let desired = whole(&rules);
        apply(&kernel, &desired, None).await;
        run("nft insert rule netdev weirgate down counter drop");
        run("nft add rule inet weirgate up ip ttl 5 accept");
        let after = observe(&kernel, &[&desired]).await;
        let places: Vec<String> = verify(&after, &desired)
            .into_iter()
            .map(|difference| difference.object)
            .collect();
        // The inserted rule changes the position of the existing one.
        assert_eq!(
            places,
            [
                "table inet weirgate chain up rule 2",
                "table netdev weirgate chain down rule 1",
                "table netdev weirgate chain down rule 2",
            ]
        );
        let steps = apply(&kernel, &desired, None).await;
        assert_eq!(steps.len(), 2);
    });
}

#[test]
fn an_ifb_of_someone_else_is_left_alone() {
    in_namespace(|kernel| async move {
        run("ip link add ifb-far type ifb");
        let desired = whole(&[]);
        let before = observe(&kernel, &[&desired]).await;
        assert_eq!(plan(&before, &desired).unwrap_err()[0].code, "K303");
    });
}

#[test]
fn capabilities_are_found_and_nothing_is_left() {
    in_namespace(|kernel| async move {
        let found = kernel.capabilities().await.unwrap();
        for kind in ["htb", "pfifo", "bfifo"] {
            assert!(found.has_qdisc(kind), "{kind}");
        }
        assert!(found.ifb && found.nft_postrouting && found.nft_ingress_forward);
        for (kind, settings) in [
            ("fq_codel", "limit 100"),
            ("sfq", "perturb 10"),
            (
                "red",
                "limit 90000 min 9000 max 30000 avpkt 1000 bandwidth 1mbit",
            ),
            ("cake", "besteffort"),
        ] {
            let line = format!("tc qdisc replace dev wan root {kind} {settings}");
            let words: Vec<&str> = line.split(' ').collect();
            let made = std::process::Command::new(words[0])
                .args(&words[1..])
                .output()
                .unwrap();
            let unknown = String::from_utf8_lossy(&made.stderr).contains("kind is unknown");
            assert_eq!(found.has_qdisc(kind), !unknown, "{kind}");
        }
        assert!(!run("ip link show").contains("probe"));
        assert_eq!(run("nft list ruleset"), "");
        assert!(run("tc qdisc show dev lo").contains("noqueue"));
    });
}

/// Applies two states in turn until it is killed. It is a test only in the process that
/// [`a_killed_apply_leaves_old_or_new`] starts.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let kernel = Kernel::open().unwrap();
        let [a, b] = two();
        let mut previous = a.clone();
        for desired in [&a, &b].into_iter().cycle() {
            apply(&kernel, desired, Some(&previous)).await;
            previous = desired.clone();
        }
    });
}

const VICTIM: &str = "WEIRGATE_TEST_VICTIM";

/// Returns two states that differ in everything and have the same handles.
fn two() -> [State; 2] {
    let a = whole(&[rule(
        vec![Match::range(Field::SourcePort, 1, 1)],
        Handle::new(2, 0x10),
    )]);
    let mut b = whole(&[rule(
        vec![Match::range(Field::SourcePort, 2, 2)],
        Handle::new(2, 0x20),
    )]);
    for device in ["wan", "ifb-far"] {
        let classes = (1..=200).map(|id| class(1, id, 0, Some(pfifo(id + 1, 9))));
        let root = htb(1, 2, classes.collect());
        b.devices.get_mut(&name(device)).unwrap().root = Some(root);
    }
    [a, b]
}

#[test]
fn a_killed_apply_leaves_old_or_new() {
    in_namespace(|kernel| async move {
        let [a, b] = two();
        apply(&kernel, &a, None).await;
        for trial in 0..20_u64 {
            // The child inherits this thread's namespace.
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "apply::victim"])
                .env(VICTIM, "1")
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let wait = std::time::Duration::from_micros(5_000 + trial * 3_331);
            tokio::time::sleep(wait).await;
            assert!(child.try_wait().unwrap().is_none(), "the victim died early");
            child.kill().unwrap();
            child.wait().unwrap();
            let now = observe(&kernel, &[&a, &b]).await;
            for part in ["wan", "ifb-far"] {
                let part = name(part);
                let is = |state: &State| {
                    let only = |state: &State| State {
                        devices: [(part.clone(), state.devices[&part].clone())].into(),
                        tables: Vec::new(),
                        ..State::default()
                    };
                    verify(&only(&now), &only(state)).is_empty()
                };
                assert!(is(&a) || is(&b), "{part} is neither: {now:?}");
            }
            for (index, table) in now.tables.iter().enumerate() {
                let table = table.canonical();
                let is = |state: &State| state.tables[index].canonical() == table;
                assert!(is(&a) || is(&b), "{table:?} is neither");
            }
            apply(&kernel, &a, Some(&b)).await;
        }
    });
}

#[test]
fn what_a_device_holds_fixed_is_an_error() {
    in_namespace(|kernel| async move {
        // A tap device cannot segment until its reader enables it.
        run("ip tuntap add dev tap0 mode tap");
        let on = Offloads {
            tso: true,
            gso: false,
            gro: false,
            segments: None,
        };
        let desired = State {
            devices: [(name("tap0"), device(None, Some(on)))].into(),
            tables: Vec::new(),
            ..State::default()
        };
        let before = observe(&kernel, &[&desired]).await;
        let error = kernel
            .apply(&plan(&before, &desired).unwrap())
            .await
            .unwrap_err();
        assert!(matches!(error, ApplyError::Restored { .. }), "{error}");
        assert!(error.to_string().contains("K314"), "{error}");
        assert_eq!(observe(&kernel, &[&desired]).await, before);
    });
}

#[test]
fn a_root_at_the_loopback_device_makes_no_qdisc_available() {
    in_namespace(|kernel| async move {
        let before = kernel.capabilities().await.unwrap();
        run("tc qdisc add dev lo root handle 7: tbf rate 1mbit burst 2000 limit 3000");
        let root = run("tc qdisc show dev lo");
        assert_eq!(kernel.capabilities().await.unwrap(), before);
        assert_eq!(run("tc qdisc show dev lo"), root);
    });
}

#[test]
fn the_missing_capability_is_named() {
    in_namespace(|kernel| async move {
        let desired = only(Some(tree()));
        let before = observe(&kernel, &[&desired]).await;
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective
            .remove(rustix::thread::CapabilitySet::NET_ADMIN);
        rustix::thread::set_capabilities(None, sets).unwrap();
        let error = kernel
            .apply(&plan(&before, &desired).unwrap())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("EPERM"), "{error}");
        assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
        let error = kernel.capabilities().await.unwrap_err();
        assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    });
}

#[test]
fn another_namespace_is_reached_through_its_descriptor() {
    in_namespace(|_| async move {
        let here = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        let outside = std::thread::spawn(move || {
            // A namespace without `wan`.
            in_namespace(|_| async move {
                run("ip link del wan");
                let kernel = Kernel::open_in(here.as_fd()).unwrap();
                let desired = whole(&[]);
                apply(&kernel, &desired, None).await;
            });
        });
        outside.join().unwrap();
        assert!(run("tc qdisc show dev wan").contains("htb 1: root"));
    });
}
