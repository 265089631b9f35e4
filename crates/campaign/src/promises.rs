// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the bounds that `weirgate check` states for an arm's policy with measurements.
//!
//! Every run under a policy thereby tests the bounds that are printed for it. The bound of a full
//! queue is always tested. The shorter bounds of a class are tested if the experiment's traffic
//! meets their conditions ([`Keeping`]).

use crate::conformance::{Keeping, keeping};
use std::collections::BTreeMap;
use weirgate_compile::{ClassReport, DirectionReport, FullQueue, check_report};
use weirgate_experiment::{Arm, Expectation, Experiment, Metric, Promise, Quantity, Statistic};
use weirgate_measure::ArmFigures;
use weirgate_units::Span;

/// Adds the bounds of every class and direction as figures: `bound.CLASS-up.max_ms` (a full queue),
/// `promise.CLASS-up.max_ms` (traffic within its guarantee and burst) and `lone.CLASS-up.max_ms` (a
/// packet with no other of its class before it). Returns the expectations that no measured wait
/// exceeds its bound.
///
/// An equal expectation of the file replaces the returned one, because it may give a reason for a
/// miss.
///
/// If an arm changes its policy during the run, a class has only the bounds that all `policies`
/// state for it, the longest of each. Its packets may have waited under any of them. If the rates
/// follow the line, no bound is stated: it is calculated from the rates of the policy.
pub fn of(
    experiment: &Experiment,
    arm: &Arm,
    policies: &[&str],
    figures: &mut ArmFigures,
) -> Vec<Expectation> {
    if follows_line(arm, policies) {
        return Vec::new();
    }
    let mut stated: Option<(BTreeMap<String, f64>, Vec<Expectation>)> = None;
    for policy in policies {
        let mut own = figures.clone();
        let before = own.metrics.clone();
        let expectations = of_one(experiment, arm, policy, &mut own);
        let mut bounds = own.metrics;
        bounds.retain(|name, _| !before.contains_key(name));
        stated = Some(match stated {
            None => (bounds, expectations),
            Some((others, earlier)) => (longest(&others, &bounds), common(&earlier, &expectations)),
        });
    }
    let (bounds, mut expectations) = stated.unwrap_or_default();
    figures.metrics.extend(bounds);
    let written = &experiment.expectations;
    expectations.retain(|own| {
        !written
            .iter()
            .any(|other| demands(other, own, &figures.metrics))
    });
    expectations
}

/// Returns whether the shaper's rates follow those of the line.
fn follows_line(arm: &Arm, policies: &[&str]) -> bool {
    let tracked = |text: &&str| {
        let policy = weirgate_policy::parse(text).0;
        policy.is_some_and(|policy| policy.track.is_some())
    };
    arm.oracle.is_some() || policies.iter().any(tracked)
}

/// Returns whether an expectation of the file is that bound.
fn demands(written: &Expectation, own: &Expectation, metrics: &BTreeMap<String, f64>) -> bool {
    (&written.arm, &written.metric) == (&own.arm, &own.metric)
        && written.promise_for(metrics).ok() == Some(own.promise)
}

/// Returns the bounds that both have, the longer of each.
fn longest(one: &BTreeMap<String, f64>, other: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let both = one.iter().filter_map(|(name, bound)| {
        let longer = bound.max(*other.get(name)?);
        Some((name.clone(), longer))
    });
    both.collect()
}

/// Returns the promises that both make, with the longer bound.
fn common(one: &[Expectation], other: &[Expectation]) -> Vec<Expectation> {
    let both = one.iter().filter_map(|expectation| {
        let alike = |twin: &&Expectation| {
            (&twin.metric, &twin.source) == (&expectation.metric, &expectation.source)
        };
        let twin = other.iter().find(alike)?;
        let (Promise::AtMost(a), Promise::AtMost(b)) = (expectation.promise, twin.promise) else {
            return None;
        };
        Some(Expectation {
            promise: Promise::AtMost(a.max(b)),
            ..expectation.clone()
        })
    });
    both.collect()
}

fn of_one(
    experiment: &Experiment,
    arm: &Arm,
    policy: &str,
    figures: &mut ArmFigures,
) -> Vec<Expectation> {
    let Some(policy) = weirgate_policy::parse(policy).0 else {
        return Vec::new();
    };
    let report = check_report(&policy);
    let mut expectations = Vec::new();
    for direction in &report.directions {
        for class in &direction.classes {
            let one = One {
                experiment,
                arm,
                directions: &report.directions,
                direction,
                class,
            };
            one.state(&mut figures.metrics);
            expectations.extend(one.expected(&figures.metrics));
        }
    }
    expectations
}

/// A class in one direction.
struct One<'a> {
    experiment: &'a Experiment,
    arm: &'a Arm,
    directions: &'a [DirectionReport],
    direction: &'a DirectionReport,
    class: &'a ClassReport,
}

/// Converts to milliseconds, rounded up to a microsecond.
fn milliseconds(span: Span) -> f64 {
    (span.as_millis_f64() * 1e3).ceil() / 1e3
}

impl One<'_> {
    fn name(&self, quantity: Quantity) -> String {
        let subject = format!("{}-{}", self.class.name, self.direction.direction);
        Metric::new(quantity, &subject, Statistic::Max).to_string()
    }

    /// Adds the stated bounds as figures.
    fn state(&self, metrics: &mut BTreeMap<String, f64>) {
        let mut put = |quantity, wait| {
            metrics.insert(self.name(quantity), milliseconds(wait));
        };
        if let Some(lone) = &self.class.lone {
            put(Quantity::Lone, lone.wait);
        }
        if let Some(within) = self.class.within.as_ref().filter(|_| self.class.in_order) {
            put(Quantity::Promise, within.wait);
        }
        if let FullQueue::Bound(bound) = &self.class.full {
            put(Quantity::Bound, bound.wait);
        }
    }

    fn expected(&self, metrics: &BTreeMap<String, f64>) -> Vec<Expectation> {
        let sojourn = self.name(Quantity::Sojourn);
        let mut list = Vec::new();
        let mut expect = |metric: String, bound: Span, what: &str| {
            if metrics.contains_key(&metric) {
                let promise = Promise::AtMost(milliseconds(bound));
                let source = format!("weirgate check: {what}");
                list.push(Expectation::new(&self.arm.name, metric, promise, source));
            }
        };
        if let FullQueue::Bound(bound) = &self.class.full {
            expect(
                sojourn.clone(),
                bound.wait,
                "the longest wait in a full queue",
            );
        }
        let mut shorter = |metric: String, keeping: Keeping| {
            let (bound, what) = match keeping {
                Keeping::Alone => (
                    &self.class.lone,
                    "a packet that finds none of its class, as here all do",
                ),
                Keeping::Within if self.class.in_order => (
                    &self.class.within,
                    "a packet of a class that keeps to its guarantee and burst, as here",
                ),
                Keeping::Within | Keeping::Unknown => return,
            };
            if let Some(bound) = bound {
                expect(metric, bound.wait, what);
            }
        };
        let until = |end| {
            keeping(
                self.experiment,
                self.arm,
                self.directions,
                self.class,
                self.direction,
                end,
            )
        };
        let whole = until(self.experiment.duration());
        if whole != Keeping::Unknown {
            shorter(sojourn, whole);
            return list;
        }
        for phase in &self.experiment.phases {
            shorter(format!("{}.{sojourn}", phase.name), until(phase.end));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::{common, demands, longest, of};
    use std::collections::BTreeMap;
    use weirgate_experiment::{Expectation, Promise};
    use weirgate_measure::ArmFigures;

    const LINE: &str = "version = 1\nname = \"t\"\ntitle = \"T\"\n[topology]\n[topology.line]\n\
        up = { rate = \"768kbit\", buffer = \"187kB\" }\n\
        down = { rate = \"8Mbit\", buffer = \"40kB\" }\nvaries = \"lte\"\n\
        [[phase]]\nname = \"a\"\nend = \"20s\"\n\
        [[probe]]\nname = \"p\"\nfrom = \"host1\"\nto = \"provider\"\ninterval = \"1s\"\n\
        [[arm]]\nname = \"weirgate\"\npolicy = \"p.toml\"\n";

    const POLICY: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"768kbit\"\n\
        down = \"8mbit\"\ninbound = \"ifb\"\nlayer = \"ethernet\"\n\
        [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\nqueue = \"pfifo 10\"\n\
        [[class]]\nname = \"rest\"\nshare = \"80%\"\npriority = 4\ndefault = true\n\
        [[rule]]\nclass = \"urgent\"\nprotocol = \"udp\"\n";

    #[test]
    fn a_shaper_whose_rates_follow_the_line_promises_nothing() {
        let stated = |arm: &str, policies: &[&str]| {
            let (experiment, problems) = weirgate_experiment::parse(&format!("{LINE}{arm}"));
            let experiment = experiment.unwrap_or_else(|| panic!("{problems:?}"));
            let wait = ("sojourn.urgent-up.max_ms".to_owned(), 900.0);
            let mut figures = ArmFigures {
                arm: "weirgate".to_owned(),
                metrics: BTreeMap::from([wait]),
            };
            let promised = of(&experiment, &experiment.arms[0], policies, &mut figures);
            (promised.len(), figures.metrics.len() - 1)
        };
        let tracked = format!(
            "{POLICY}[track]\nreflectors = [\"198.51.100.1\"]\ndown-floor = \"800kbit\"\n\
             down-ceiling = \"12mbit\"\n"
        );
        assert!(weirgate_policy::parse(&tracked).0.is_some());
        let (promised, bounds) = stated("", &[POLICY]);
        assert!(promised > 0 && bounds > 0, "{promised}, {bounds}");
        assert_eq!(stated("oracle = \"0s\"\n", &[POLICY]), (0, 0));
        assert_eq!(stated("", &[&tracked]), (0, 0));
        assert_eq!(stated("", &[POLICY, &tracked]), (0, 0));
    }

    #[test]
    fn of_several_policies_the_longest_bound_holds_for_what_all_state() {
        let bounds = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            let owned = pairs.iter().map(|&(name, bound)| (name.to_owned(), bound));
            owned.collect()
        };
        let (one, other) = (
            bounds(&[("bound.a-up.max_ms", 5.0), ("bound.b-up.max_ms", 7.0)]),
            bounds(&[("bound.a-up.max_ms", 6.0)]),
        );
        let both = bounds(&[("bound.a-up.max_ms", 6.0)]);
        assert_eq!(longest(&one, &other), both);
        assert_eq!(longest(&other, &one), both);

        let promise = |metric: &str, source: &str, bound| {
            Expectation::new("x", metric, Promise::AtMost(bound), source)
        };
        let one = [
            promise("a", "full", 5.0),
            promise("a", "short", 1.0),
            promise("b", "full", 1.0),
        ];
        let other = [promise("a", "full", 4.0), promise("b", "short", 2.0)];
        assert_eq!(common(&one, &other), [promise("a", "full", 5.0)]);
    }

    #[test]
    fn only_the_same_bound_stands_in_the_place_of_one() {
        let figures = BTreeMap::from([("lone.a-up.max_ms".to_owned(), 0.347)]);
        let of = |arm: &str, promise| Expectation::new(arm, "sojourn.a-up.max_ms", promise, "");
        let own = of("x", Promise::AtMost(0.347));
        let named = Expectation {
            formula: Some("lone.a-up.max_ms".parse().unwrap()),
            ..of("x", Promise::AtMost(0.0))
        };
        assert!(demands(&named, &own, &figures));
        assert!(
            !demands(&named, &own, &BTreeMap::new()),
            "a bound of no figure"
        );
        assert!(demands(&own, &own, &figures));
        for other in [
            of("x", Promise::AtMost(0.4)),
            of("x", Promise::AtLeast(0.347)),
            of("y", Promise::AtMost(0.347)),
        ] {
            assert!(!demands(&other, &own, &figures), "{other:?}");
        }
    }
}
