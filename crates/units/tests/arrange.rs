// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sorting and collecting with little machine code have the same results as the standard library's.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::{Arrange as _, Inserted as _};

proptest! {
    /// Use few keys, so that many elements are equal: their order is kept.
    #[test]
    fn elements_are_arranged_as_the_standard_library_sorts_them(
        all in prop::collection::vec((0u8..8, any::<u16>()), 0..200)
    ) {
        let names = || all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>();
        let (mut ours, mut theirs) = (names(), names());
        ours.arrange();
        theirs.sort();
        prop_assert_eq!(ours, theirs);
        let (mut ours, mut theirs) = (all.clone(), all.clone());
        ours.arrange_by_key(|one| Reverse(one.0));
        theirs.sort_by_key(|one| Reverse(one.0));
        prop_assert_eq!(&ours, &theirs);
        ours.arrange_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        theirs.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn the_last_value_of_a_key_is_kept(
        all in prop::collection::vec((0u8..8, any::<u16>()), 0..50)
    ) {
        let ours: BTreeMap<_, _> = all.iter().copied().inserted();
        prop_assert_eq!(ours, all.iter().copied().collect::<BTreeMap<_, _>>());
        let ours: BTreeSet<_> = all.iter().copied().inserted();
        prop_assert_eq!(ours, all.into_iter().collect::<BTreeSet<_>>());
    }
}
