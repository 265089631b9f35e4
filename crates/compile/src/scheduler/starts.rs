// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds of all waits that begin with a packet that another class borrowed.
//!
//! These waits differ only in the bucket of that class, which is empty. As long as their sets of
//! equals counted by their bucket are the same, one sum serves all of them. Where the class itself
//! makes the difference, classes with the same numbers share a sum.

use crate::scheduler::case::{Before, Case};
use weirgate_units::{Rate, Span};

/// A wait of which the bound is not known yet.
#[derive(Clone, Copy)]
struct Open {
    /// The class that borrowed the packet.
    other: usize,
    /// Whether that class is counted by its bucket.
    inside: bool,
    /// The smallest sum so far.
    best: Option<Span>,
}

/// The numbers of a class that borrowed a packet, and how many of those that are counted by their
/// bucket precede it in the order of last packets. They determine the sum.
type Numbers = (Rate, u64, u64, u64, usize);

/// Returns the bound for each class that borrowed a packet: what [`Case::least`] returns, with the
/// same roundings. `case` is that of a foreign packet. `trial` is called for each set of classes
/// that is summed.
pub(super) fn least_of_each(case: Case<'_>, mut trial: impl FnMut()) -> Vec<Span> {
    let limited = case.equals();
    let mut least = vec![Span::ZERO; limited.len()];
    let open = begun(case, &limited);
    let mut groups: Vec<(Vec<bool>, Vec<Open>)> = vec![(limited, open)];
    while let Some((limited, mut open)) = groups.pop() {
        let totals = totals(case, &limited, &open, &mut trial);
        let mut totals = totals.into_iter();
        open.retain_mut(|open| {
            let total = totals.next().unwrap_or(Span::ZERO);
            if let Some(best) = open.best.filter(|best| total >= *best) {
                least[open.other] = best;
                return false;
            }
            open.best = Some(total);
            true
        });
        if !open.is_empty() {
            narrow(case, &limited, open, &mut groups);
        }
    }
    least
}

/// Returns the sum for each class that borrowed a packet, if these classes are counted by their
/// bucket. The one for the class of the case is 0.
pub(super) fn of_each(case: Case<'_>, limited: &[bool]) -> Vec<Span> {
    let open = begun(case, limited);
    let totals = totals(case, limited, &open, &mut || ());
    let mut each = vec![Span::ZERO; limited.len()];
    for (open, total) in open.iter().zip(totals) {
        each[open.other] = total;
    }
    each
}

fn begun(case: Case<'_>, limited: &[bool]) -> Vec<Open> {
    let others = (0..limited.len()).filter(|other| *other != case.at);
    let open = |other| Open {
        other,
        inside: limited[other],
        best: None,
    };
    others.map(open).collect()
}

/// Returns the sum for each of these waits, with the same equals counted by their bucket but for
/// the class that borrowed the packet.
fn totals(case: Case<'_>, limited: &[bool], open: &[Open], trial: &mut impl FnMut()) -> Vec<Span> {
    trial();
    let counted = case.counted(limited);
    let mut unused = vec![None; limited.len()];
    let mut sum = 0;
    for (other, waste) in &counted.first {
        unused[*other] = Some(*waste);
        sum += u128::from(case.first_time((*other, *waste), &counted).as_nanos());
    }
    let mut precede = vec![0; limited.len()];
    let mut before = 0;
    for at in &case.scheduler.order {
        precede[*at] = before;
        before += usize::from(unused[*at].is_some());
    }
    let mut known: Vec<(Numbers, Span)> = Vec::new();
    let total = |open: &Open| {
        let other = open.other;
        let emptied = Case {
            before: Before::Borrowed(other),
            ..case
        };
        if open.inside == limited[other] {
            let Some(waste) = unused[other] else {
                return case.sum(&counted, sum);
            };
            let full = case.first_time((other, waste), &counted).as_nanos();
            let empty = emptied.first_time((other, waste), &counted).as_nanos();
            return case.sum(&counted, sum - u128::from(full) + u128::from(empty));
        }
        let member = &case.scheduler.members[other];
        let numbers = (
            member.own_rate(),
            emptied.bucket(other),
            member.on_credit(),
            member.turn(),
            precede[other],
        );
        if let Some((_, total)) = known.iter().find(|(known, _)| *known == numbers) {
            return *total;
        }
        trial();
        let mut other_set = limited.to_vec();
        other_set[other] = open.inside;
        let total = emptied.total(&other_set);
        // A set without the class differs in what remains, too.
        if open.inside {
            known.push((numbers, total));
        }
        total
    };
    open.iter().map(total).collect()
}

/// Removes the equals that turns limit more tightly from the sets of these waits, and adds the
/// waits to groups with the same set.
fn narrow(
    case: Case<'_>,
    limited: &[bool],
    open: Vec<Open>,
    groups: &mut Vec<(Vec<bool>, Vec<Open>)>,
) {
    let waits = || open.iter().filter_map(|open| open.best);
    let least = waits().min().unwrap_or(Span::ZERO);
    let most = waits().max().unwrap_or(Span::ZERO);
    let mut common = limited.to_vec();
    let mut unsure = Vec::new();
    for other in (0..limited.len()).filter(|other| limited[*other]) {
        // The difference of the two is linear in the wait but for roundings. What holds clearly
        // for the least and the largest wait holds for those between them.
        let rounded = case.rounded(other);
        let smaller = |wait: Span, by: u64| {
            case.by_bucket(other, wait).saturating_add(by) < case.by_turns(other, wait)
        };
        let larger = |wait: Span, by: u64| {
            case.by_bucket(other, wait) >= case.by_turns(other, wait).saturating_add(by)
        };
        let by = if least == most { 0 } else { rounded };
        if larger(least, by) && larger(most, by) {
            common[other] = false;
        } else if !(smaller(least, by) && smaller(most, by)) {
            unsure.push(other);
        }
    }
    let first = groups.len();
    for mut open in open {
        let wait = open.best.unwrap_or(Span::ZERO);
        let mut set = common.clone();
        for other in &unsure {
            set[*other] = case.by_bucket(*other, wait) < case.by_turns(*other, wait);
        }
        let other = open.other;
        let emptied = Case {
            before: Before::Borrowed(other),
            ..case
        };
        open.inside &= emptied.by_bucket(other, wait) < emptied.by_turns(other, wait);
        match groups[first..].iter_mut().find(|group| group.0 == set) {
            Some(group) => group.1.push(open),
            None => groups.push((set, vec![open])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::case::{AnyOrder, Own};
    use crate::scheduler::{Scheduler, wait};
    use proptest::prelude::*;
    use weirgate_document::Problems;
    use weirgate_policy::Direction;

    /// Returns the scheduler of classes with these priorities and shares in thousandths.
    fn scheduler(classes: &[(u8, u32)]) -> Scheduler {
        let class = |(at, (priority, share)): (usize, &(u8, u32))| {
            format!(
                "[[class]]\nname = \"c{at}\"\npriority = {priority}\nshare = \"{}.{}%\"\n\
                 default = {}\n",
                share / 10,
                share % 10,
                at == 0
            )
        };
        let head = "version = 1\n[link]\ndevice = \"wan\"\nup = \"20mbit\"\nlayer = \"ethernet\"\n";
        let classes: Vec<String> = classes.iter().enumerate().map(class).collect();
        let text = format!("{head}{}", classes.concat());
        let (policy, problems) = weirgate_policy::parse(&text);
        let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
        crate::scheduler::of(&policy, Direction::Up, &Problems::default()).unwrap()
    }

    fn owns(scheduler: &Scheduler, at: usize) -> [Own; 3] {
        let any = AnyOrder {
            kept: wait::kept(&scheduler.members[at]),
            before: 4_000,
            excess: 1_500,
            shaper: None,
        };
        [Own::InOrder(0), Own::InOrder(9_000), Own::AnyOrder(any)]
    }

    fn case(scheduler: &Scheduler, at: usize, own: Own) -> Case<'_> {
        Case {
            scheduler,
            at,
            own,
            before: Before::Foreign,
            debt: false,
        }
    }

    #[test]
    fn trials_of_like_classes_do_not_grow_with_their_number() {
        let most = |count: u16| {
            let scheduler = scheduler(&vec![(1, 900 / u32::from(count)); count.into()]);
            let all = owns(&scheduler, 0).map(|own| {
                let mut trials = 0;
                least_of_each(case(&scheduler, 0, own), || trials += 1);
                trials
            });
            all.into_iter().max().unwrap()
        };
        assert!(most(90) <= most(10) + 1 && most(90) <= 8, "{}", most(90));
    }

    proptest! {
        /// The shared sums are those of each wait by itself, to the nanosecond.
        #[test]
        fn each_wait_has_the_bound_that_it_has_alone(
            classes in proptest::collection::vec((0_u8..3, 1_u32..90), 2..11)
        ) {
            let scheduler = scheduler(&classes);
            for at in 0..classes.len() {
                for own in owns(&scheduler, at) {
                    let foreign = case(&scheduler, at, own);
                    let least = least_of_each(foreign, || ());
                    for other in (0..classes.len()).filter(|other| *other != at) {
                        let before = Before::Borrowed(other);
                        let alone = Case { before, ..foreign };
                        prop_assert_eq!(least[other], alone.least().0);
                    }
                }
            }
        }
    }
}
