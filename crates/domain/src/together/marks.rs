// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the policies of two links do not read each other's numbers in marks.
//!
//! A connection that moves to another link takes its mark along. Two links may use the same bits
//! if a number means the same in both policies: they then have the same rules for the same
//! classes, and only the rates differ.

use std::collections::BTreeSet;
use weirgate_state::{DeviceName, Effect, Field, Match, Rule, RuleVerdict, Set, State, Values};

/// The bits that are not proposed: those of payloads and control groups, and those of
/// `weirgate links`, where nothing else is written.
const RESERVED: u32 = 0xff00_0f00;
/// Where proposed bits may begin.
const LOWEST: [u32; 5] = [12, 0, 4, 16, 20];

/// Which marks are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marked {
    Connections,
    Packets,
}

/// The numbers that the tables of a link write into marks, and when.
struct Numbers<'s> {
    link: &'s DeviceName,
    bits: u32,
    /// The rules that write, without what follows them, and the sets that they use.
    rules: Vec<Rule>,
    sets: Vec<&'s Set>,
}

/// Describes the bits of marks that two links use for different numbers.
pub(super) fn conflicts(parts: &[(DeviceName, State)]) -> Vec<String> {
    let mut found = Vec::new();
    for marked in [Marked::Connections, Marked::Packets] {
        let all: Vec<Numbers> = parts
            .iter()
            .map(|(link, state)| numbers(marked, link, state))
            .collect();
        let differs = |one: &Numbers, other: &Numbers| {
            one.bits & other.bits != 0 && (&one.rules, &one.sets) != (&other.rules, &other.sets)
        };
        for (at, own) in all.iter().enumerate() {
            if let Some(other) = all[..at].iter().find(|other| differs(own, other)) {
                found.push(described(marked, other, own, &all));
            }
        }
    }
    found
}

/// Returns the numbers that the tables of a link write.
fn numbers<'s>(marked: Marked, link: &'s DeviceName, state: &'s State) -> Numbers<'s> {
    let own = Match::text(Field::InputDevice, link.as_str());
    let mut numbers = Numbers {
        link,
        bits: 0,
        rules: Vec::new(),
        sets: Vec::new(),
    };
    for table in &state.tables {
        let mut used = BTreeSet::new();
        for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
            let bits = rule
                .effects
                .iter()
                .filter_map(|effect| mask(marked, effect));
            let bits = bits.fold(0, |all, mask| all | mask);
            if bits == 0 {
                continue;
            }
            numbers.bits |= bits;
            let mut rule = rule.clone();
            rule.counter = None;
            rule.verdict = RuleVerdict::Continue;
            rule.matches.retain(|one| *one != own);
            used.extend(rule.matches.iter().filter_map(|one| match one {
                Match::Test {
                    values: Values::Set(name),
                    ..
                } => Some(name.clone()),
                _ => None,
            }));
            numbers.rules.push(rule);
        }
        let sets = table.sets.iter();
        numbers
            .sets
            .extend(sets.filter(|set| used.contains(&set.name)));
    }
    numbers
}

/// Returns the bits of marks that an effect writes.
const fn mask(marked: Marked, effect: &Effect) -> Option<u32> {
    match (marked, effect) {
        (Marked::Connections, Effect::ConnectionMark { mask, .. })
        | (Marked::Packets, Effect::Mark { mask, .. }) => Some(*mask),
        _ => None,
    }
}

/// Describes a conflict, with a line that mends it.
fn described(marked: Marked, other: &Numbers, own: &Numbers, all: &[Numbers]) -> String {
    let both = other.bits & own.bits;
    let masks = own.rules.iter().flat_map(|rule| &rule.effects);
    let masks = masks.filter_map(|effect| mask(marked, effect));
    // The inside host of a connection is written bit by bit.
    let whole = masks.filter(|mask| mask & both != 0 && mask.count_ones() > 1);
    let (what, field) = match (marked, whole.count()) {
        (Marked::Packets, _) => ("number senders", "cgroup"),
        (Marked::Connections, 0) => ("number inside hosts", "inside"),
        (Marked::Connections, _) => ("keep decisions", "mask"),
    };
    let taken = all.iter().fold(RESERVED, |taken, one| taken | one.bits);
    let free = LOWEST.iter().find_map(|lowest| {
        let bits = 0xf_u32 << lowest;
        (bits & taken == 0).then_some(bits)
    });
    let line = free.map_or_else(String::new, |bits| {
        format!(
            ", or write `{field} = \"{bits:#010x}\"` in `[marks]` of `{}`",
            own.link
        )
    });
    format!(
        "the policies of `{}` and `{}` {what} in the same bits {both:#010x} of marks, by different \
         rules; give both the same classes and rules by `include`{line}",
        other.link, own.link
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::Capabilities;

    const ONE: &str = "version = 1\n[link]\ndevice = \"DEVICE\"\nup = \"1mbit\"\nlayer = \
                       \"ethernet\"\n[[class]]\nname = \"first\"\nshare = \"20%\"\n[[class]]\n\
                       name = \"rest\"\nshare = \"80%\"\ndefault = true\n";
    const KEPT: &str = "[[rule]]\nclass = \"first\"\nport = PORT\nkeep = true\n";

    fn state(device: &str, more: &str) -> (DeviceName, State) {
        let text = ONE.replace("DEVICE", device) + more;
        let (policy, problems) = weirgate_policy::parse(&text);
        let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
        let (state, _) = weirgate_compile::compile(&policy, &Capabilities::all());
        (DeviceName::new(device).unwrap(), state.unwrap())
    }

    #[test]
    fn numbers_that_mean_the_same_are_shared() {
        let kept = KEPT.replace("PORT", "22");
        let parts = [
            state("core0", &kept),
            state("core1", &kept),
            state("core2", ""),
        ];
        assert_eq!(conflicts(&parts), Vec::<String>::new());
        let sender = "[[rule]]\nclass = \"first\"\ncgroup = \"a.slice\"\n";
        let parts = [state("core0", sender), state("core1", sender)];
        assert_eq!(conflicts(&parts), Vec::<String>::new());
    }

    #[test]
    fn other_numbers_need_bits_of_their_own() {
        let (ssh, dns) = (KEPT.replace("PORT", "22"), KEPT.replace("PORT", "53"));
        let problems = conflicts(&[state("core0", &ssh), state("core1", &dns)]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let line = "write `mask = \"0x0000f000\"` in `[marks]` of `core1`";
        assert!(problems[0].contains("`core0` and `core1`"), "{problems:?}");
        assert!(problems[0].contains(line), "{problems:?}");
        let mended = format!("[marks]\nmask = \"0x0000f000\"\n{dns}");
        let parts = [state("core0", &ssh), state("core1", &mended)];
        assert_eq!(conflicts(&parts), Vec::<String>::new());
        // The third link gets bits that neither of the others has.
        let parts = [
            state("core0", &ssh),
            state("core1", &mended),
            state("core2", &KEPT.replace("PORT", "123")),
        ];
        let problems = conflicts(&parts);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].contains("`mask = \"0x0000000f\"`"),
            "{problems:?}"
        );
    }

    #[test]
    fn senders_are_numbered_alike_or_apart() {
        let sender = |group: &str| format!("[[rule]]\nclass = \"first\"\ncgroup = \"{group}\"\n");
        let parts = [
            state("core0", &sender("a.slice")),
            state("core1", &sender("b.slice")),
        ];
        let problems = conflicts(&parts);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("number senders"), "{problems:?}");
        assert!(
            problems[0].contains("`cgroup = \"0x0000f000\"`"),
            "{problems:?}"
        );
    }
}
