// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Service level agreements: over-subscription, shares by precedence, availability over a month.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use std::fmt::Write as _;
use weirgate_domain::{
    Audit, Check, Comparison, Condition, Domain, Fate, History, Judgement, MOST_RUNS, Quantity,
    Report, Run, check, parse, router_policies,
};
use weirgate_units::{Rate, Share, Span};

const FIVE: &str = include_str!("domains/five-hops.toml");

fn domain(text: &str) -> Domain {
    let (domain, problems) = parse(text);
    domain.unwrap_or_else(|| panic!("{problems:#?}"))
}

/// Returns the problems of a text with line, column and code.
fn problems(text: &str) -> Vec<String> {
    let (domain, problems) = parse(text);
    assert!(domain.is_none());
    let each = problems.into_iter().map(|one| {
        let (line, column) = one.line_column(text);
        format!("{line}:{column} {} {}; {}", one.code, one.message, one.hint)
    });
    each.collect()
}

fn found(check: &Check) -> Vec<&str> {
    check.findings.iter().map(|one| one.what.as_str()).collect()
}

fn report(domain: &Domain, check: &Check, details: bool) -> String {
    let report = Report {
        domain,
        check,
        details,
    };
    report.to_string()
}

/// The example with 6 Mbit/s of books in the class that has 4.
fn crowded(factor: &str) -> String {
    let text = FIVE.replace("rate = \"2mbit\"\nburst", "rate = \"6mbit\"\nburst");
    text.replace(
        "share = \"40%\"",
        &format!("share = \"40%\"\noversubscription = {factor}"),
    )
}

#[test]
fn a_class_may_be_oversubscribed_up_to_its_factor() {
    let domain = domain(&crowded("2"));
    let check = check(&domain);
    assert_eq!(found(&check), [""; 0]);
    let load = |class: &str| check.loads.iter().find(|one| one.class == class).unwrap();
    let gold = load("gold");
    let [promised, guaranteed, allowed] =
        [gold.promised, gold.guaranteed, gold.allowed].map(Rate::as_bits_per_second);
    assert!(guaranteed < promised && promised <= allowed, "{gold:?}");
    assert_eq!(allowed, guaranteed * 2);
    assert_eq!(load("voice").allowed, load("voice").guaranteed);
    // The telephone keeps its worst case, and books have none.
    let plain = weirgate_domain::check(&self::domain(FIVE));
    assert_eq!(check.delays[0], plain.delays[0]);
    assert!(check.delays[1].is_none() && plain.delays[1].is_some());
    let text = report(&domain, &check, false);
    for expected in [
        "`gold` is over-subscribed: 1.54 times its guarantee is promised at core0 of west.",
        "All promises can be kept, but not all of an over-subscribed class at once",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    // The policies are those of a class with other traffic than promised.
    let policies = router_policies(&domain, &check);
    assert_eq!(policies.len(), 5);
    for policy in weirgate_domain::divide(&policies["two"]) {
        let (policy, problems) = weirgate_policy::parse(&policy);
        assert!(policy.is_some(), "{problems:?}");
    }
}

#[test]
fn beyond_the_factor_link_class_sum_and_limit_are_named() {
    let domain = domain(&crowded("1.5"));
    let check = check(&domain);
    let found = found(&check);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(
        found[0],
        "core0 of west towards one: 6152 kbit/s are promised in `gold`, which has 3991.6 kbit/s \
         there, 5987.4 kbit/s allowed by its over-subscription; the sum of books"
    );
    // Each change suffices for its port.
    let changes = &check.findings[0].changes;
    assert!(
        changes[0].starts_with("promise `books` 5839 kbit/s in place of 6000 kbit/s"),
        "{changes:?}"
    );
    let text = crowded("1.5").replace("rate = \"6mbit\"\nburst", "rate = \"5839kbit\"\nburst");
    assert_eq!(weirgate_domain::check(&self::domain(&text)).findings, []);
    // Without a factor, the guarantee is the limit.
    let check = weirgate_domain::check(&self::domain(&crowded("1")));
    assert!(
        check.findings[0]
            .what
            .contains("which has 3991.6 kbit/s there; the sum")
    );
}

#[test]
fn no_time_is_promised_in_an_oversubscribed_class() {
    for promise in ["delay = \"1s\"", "jitter = \"1s\"", "loss = \"1%\""] {
        let text = crowded("2").replace("burst = \"15kB\"", promise);
        let check = check(&domain(&text));
        let found = found(&check);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].starts_with(
                "`books` is promised a time or a loss in `gold`, which is over-subscribed at \
                 core0 of west: 6152 kbit/s are promised there, 3991.6 kbit/s guaranteed"
            ),
            "{found:#?}"
        );
        // A factor alone takes nothing away: only what is promised does.
        let text = text.replace("rate = \"6mbit\"", "rate = \"2mbit\"");
        assert_eq!(weirgate_domain::check(&domain(&text)).findings, []);
    }
}

/// Shares are in proportion to the precedence plus 1: 2 for AF1 and 1 for the default, of 70 %.
#[test]
fn shares_follow_from_precedence() {
    let text = FIVE
        .replace("share = \"40%\"", "share = \"precedence\"")
        .replace("share = \"25%\"", "share = \"precedence\"");
    let domain = domain(&text);
    let share = |name: &str| domain.classes[name].share.unwrap();
    assert_eq!(share("voice"), Share::percent(30));
    assert_eq!(share("gold"), Share::millionths(466_600));
    assert_eq!(share("rest"), Share::millionths(233_300));
    let check = check(&domain);
    assert_eq!(found(&check), [""; 0]);
    let note = "Shares by IP precedence: `gold` 46.66%, `rest` 23.33%.";
    assert!(
        check.notes.iter().any(|one| one == note),
        "{:?}",
        check.notes
    );
    // All eight of RFC 791: 1/36 to 8/36 of the whole. EF is 5, like CS5.
    let mut all = String::from("version = 1\n[router.a]\nrole = \"boundary\"\n");
    for number in 0..8 {
        let behaviour = match number {
            0 => "DF".to_owned(),
            5 => "EF".to_owned(),
            4 => "AF4".to_owned(),
            other => format!("CS{other}"),
        };
        let _ = writeln!(
            all,
            "[class.c{number}]\nbehaviour = \"{behaviour}\"\nshare = \"precedence\""
        );
    }
    for name in ["x", "y"] {
        let _ = writeln!(
            all,
            "[customer.{name}]\nrouter = \"a\"\ndevice = \"{name}0\"\nrate = \"9mbit\""
        );
    }
    let domain = self::domain(&all);
    let mut sum = 0;
    for number in 0..8 {
        let share = domain.classes[&format!("c{number}")].share.unwrap();
        let expected = 1_000_000 * (number + 1) / 36 / 100 * 100;
        assert_eq!(share.as_millionths(), expected);
        sum += expected;
    }
    assert!((999_200..=1_000_000).contains(&sum), "{sum}");
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    let with = |old: &str, new: &str| {
        assert!(FIVE.contains(old));
        problems(&FIVE.replacen(old, new, 1))
    };
    assert_eq!(
        with("share = \"40%\"", "share = \"precedance\""),
        ["45:9 D004 `share`: `precedance` is not a percentage; write a percentage, such as `20%`"]
    );
    assert_eq!(
        with("share = \"30%\"", "share = \"30%\"\noversubscription = 2"),
        [
            "42:1 N112 EF cannot be over-subscribed; take `oversubscription` away: the time that EF \
             promises needs a guarantee for all of it"
        ]
    );
    assert_eq!(
        with("share = \"25%\"", "share = \"25%\"\noversubscription = 2"),
        [
            "50:1 N112 DF cannot be over-subscribed; take `oversubscription` away: nothing is \
             promised in it"
        ]
    );
    for value in ["0.5", "1001", "-2"] {
        let old = "share = \"40%\"";
        assert_eq!(
            with(old, &format!("{old}\noversubscription = {value}")),
            ["46:1 N105 `oversubscription` is out of range; write a number from 1 to 1000"]
        );
    }
    assert_eq!(
        with(
            "behaviour = \"AF1\"\nshare = \"40%\"",
            "behaviour = \"RT\"\nshare = \"precedence\""
        ),
        [
            "45:9 N112 RT has no IP precedence; write its share as a percentage: the upper bits of \
             its code points are urgency and importance"
        ]
    );
    let full = FIVE
        .replace("share = \"40%\"", "share = \"70%\"")
        .replace("share = \"25%\"", "share = \"precedence\"");
    assert_eq!(
        problems(&full),
        [
            "49:9 N106 the stated shares leave nothing for `rest`; write smaller shares for the \
             classes with percentages"
        ]
    );
    let loss = "loss = \"0%\"";
    assert_eq!(
        with(
            loss,
            &format!("{loss}\navailability = \"100.1%\"\noutage = \"745h\"")
        ),
        [
            "75:16 N105 `availability` is out of range; write a value from 1% to 100%",
            "76:10 N105 `outage` is out of range; write a value from 0s to 744h"
        ]
    );
    assert_eq!(
        with(loss, &format!("{loss}\navailability = 99")),
        ["75:16 D004 `availability` is of type integer; write `availability = \"99%\"`"]
    );
    assert_eq!(
        with(loss, &format!("{loss}\noutage = \"2d\"")),
        [
            "75:10 D004 `outage`: `2d` is not a time span; write a number with ns, us, ms, s, min \
             or h, such as `150ms`"
        ]
    );
}

/// The times below count from this month's beginning: 30 days.
const DAY: u64 = 24 * 60 * 60;
const HOUR: u64 = 60 * 60;
const START: u64 = 100 * DAY;
const MONTH: std::ops::Range<u64> = START..START + 30 * DAY;

fn promising(availability: &str, outage: &str) -> Domain {
    let promise =
        format!("burst = \"15kB\"\navailability = \"{availability}\"\noutage = \"{outage}\"");
    domain(&FIVE.replace("burst = \"15kB\"", &promise))
}

fn fate(broken: &[Quantity]) -> Fate {
    let all = [
        Quantity::Rate,
        Quantity::Delay,
        Quantity::Jitter,
        Quantity::Loss,
    ];
    let each = all.map(|quantity| Comparison {
        quantity,
        promised: 1.0,
        measured: 1.0,
        kept: !broken.contains(&quantity),
    });
    Fate::Judged(each.to_vec())
}

/// Adds a verification each hour of a range; both services get the same.
fn hourly(history: &mut History, domain: &Domain, hours: std::ops::Range<u64>, fate: &Fate) {
    for hour in hours {
        let fates = [fate.clone(), fate.clone()];
        history.add(START + hour * HOUR, domain, &fates);
    }
}

fn books(history: &History, domain: &Domain, now: u64) -> Audit {
    history.judged(domain, &MONTH, now).pop().unwrap()
}

#[test]
fn a_month_is_judged_from_its_verifications() {
    let domain = promising("99%", "3h");
    let mut history = History::default();
    hourly(&mut history, &domain, 0..100, &fate(&[]));
    hourly(&mut history, &domain, 100..103, &fate(&[Quantity::Loss]));
    hourly(&mut history, &domain, 103..720, &fate(&[]));
    // Consecutive verifications with one result are one run, for each of two services.
    assert_eq!(history.runs.len(), 6);
    let audit = books(&history, &domain, MONTH.end);
    assert_eq!(audit.down, Span::from_secs(3 * HOUR));
    assert_eq!((audit.longest, audit.unknown), (audit.down, Span::ZERO));
    assert_eq!(audit.available(), Some([717.0 / 720.0; 2]));
    // 7.2 hours of 720 may be lost.
    assert_eq!(
        (audit.availability, audit.outage),
        (Some(Judgement::Kept), Some(Judgement::Kept))
    );
    assert!(audit.sound());
    let only = &audit.breaks[..];
    assert_eq!(only.len(), 1);
    assert_eq!(
        (only[0].from, only[0].until),
        (START + 100 * HOUR, START + 103 * HOUR)
    );
    assert_eq!(only[0].broken, [Quantity::Loss]);
    // The same history breaks stricter promises.
    let strict = promising("99.6%", "2h");
    let audit = books(&history, &strict, MONTH.end);
    assert_eq!(
        (audit.availability, audit.outage),
        (Some(Judgement::Broken), Some(Judgement::Broken))
    );
    assert!(!audit.sound());
    // In the middle of the month, its whole allowance counts, and the time passed so far.
    let audit = books(&history, &domain, START + 360 * HOUR);
    assert_eq!(audit.availability, Some(Judgement::Kept));
    assert_eq!(audit.available(), Some([357.0 / 360.0; 2]));
    // The telephone promises no availability: a break is a break.
    let telephone = &history.judged(&domain, &MONTH, MONTH.end)[0];
    assert_eq!((telephone.availability, telephone.sound()), (None, false));
}

#[test]
fn time_without_a_verification_is_unknown() {
    let domain = promising("99%", "1h");
    let mut history = History::default();
    let audit = books(&history, &domain, MONTH.end);
    assert_eq!(
        (audit.availability, audit.sound()),
        (Some(Judgement::Open), false)
    );
    assert_eq!(audit.available(), Some([0.0, 1.0]));
    // Not even in the first minute, of which the whole may be lost.
    let audit = books(&history, &domain, START + 60);
    assert_eq!(audit.availability, Some(Judgement::Open));
    // From hour 10 on; the last one counts for two hours.
    hourly(&mut history, &domain, 10..20, &fate(&[]));
    let audit = books(&history, &domain, START + 30 * HOUR);
    assert_eq!(audit.unknown, Span::from_secs((10 + 9) * HOUR));
    assert_eq!(audit.possible, Span::from_secs(10 * HOUR));
    assert_eq!(
        (audit.availability, audit.outage),
        (Some(Judgement::Open), Some(Judgement::Open))
    );
    // A machine that did not answer is no outage, and ends what is known.
    let mut silent = history.clone();
    let none = Fate::NotMeasured("alfa: it ended".to_owned());
    hourly(&mut silent, &domain, 20..21, &none);
    let audit = books(&silent, &domain, START + 21 * HOUR);
    assert_eq!(
        (audit.down, audit.unknown),
        (Span::ZERO, Span::from_secs(11 * HOUR))
    );
    // What is broken for too long stays so, whatever the rest was.
    hourly(&mut history, &domain, 20..30, &fate(&[Quantity::Rate]));
    let audit = books(&history, &domain, START + 30 * HOUR);
    assert_eq!(
        (audit.availability, audit.outage),
        (Some(Judgement::Broken), Some(Judgement::Broken))
    );
    // An outage that begins as another promise breaks is one outage, with two entries.
    hourly(&mut history, &domain, 30..32, &fate(&[Quantity::Delay]));
    let audit = books(&history, &domain, START + 32 * HOUR);
    assert_eq!(
        (audit.breaks.len(), audit.longest),
        (2, Span::from_secs(12 * HOUR))
    );
}

/// Three hours between two verifications leave one unknown, and a run ends.
#[test]
fn rare_verifications_leave_gaps() {
    let domain = promising("99%", "1h");
    let mut history = History::default();
    for hour in [0, 3, 6] {
        hourly(&mut history, &domain, hour..hour + 1, &fate(&[]));
    }
    assert_eq!(history.runs.len(), 6);
    let audit = books(&history, &domain, START + 6 * HOUR);
    assert_eq!(audit.unknown, Span::from_secs(2 * HOUR));
    assert_eq!(audit.outage, Some(Judgement::Kept));
    // A clock that was set back adds a run, and counts no time twice.
    hourly(&mut history, &domain, 5..6, &fate(&[Quantity::Rate]));
    let audit = books(&history, &domain, START + 8 * HOUR);
    assert_eq!(audit.down, Span::from_secs(HOUR));
    assert_eq!(audit.unknown, Span::from_secs(HOUR));
}

#[test]
fn a_history_is_bounded() {
    let domain = promising("99%", "1h");
    let run = |number: u64| Run {
        service: "books".to_owned(),
        condition: Condition::Kept,
        from: number,
        until: number,
        count: 1,
    };
    let mut history = History {
        runs: (0..MOST_RUNS as u64).map(run).collect(),
    };
    hourly(&mut history, &domain, 0..1, &fate(&[]));
    assert_eq!(history.runs.len(), MOST_RUNS);
    // The oldest went, and the newest are there.
    assert_eq!(history.runs.iter().map(|run| run.from).min(), Some(2));
    assert_eq!(history.runs.iter().map(|run| run.until).max(), Some(START));
}

#[test]
fn promises_about_a_month_are_in_the_report() {
    let text = FIVE.replace(
        "loss = \"0%\"",
        "loss = \"0%\"\navailability = \"99.9%\"\noutage = \"1h\"",
    );
    let domain = domain(&text);
    let check = check(&domain);
    assert_eq!(found(&check), [""; 0]);
    let line = report(&domain, &check, false);
    assert!(
        line.contains("kept; available 99.9% of each month; no outage longer than 1h\n"),
        "{line}"
    );
    let details = report(&domain, &check, true);
    let expected = "  available 99.9% of each month; no outage longer than 1h: `weirgate domain audit` \
                    judges it\n";
    assert!(details.contains(expected), "{details}");
    // 0.1 % of 31 days are 44.64 minutes.
    let note =
        "`telephone` may have an outage of 1h, but its availability leaves 44.6 min in 31 days.";
    assert!(
        check.notes.iter().any(|one| one == note),
        "{:?}",
        check.notes
    );
}
