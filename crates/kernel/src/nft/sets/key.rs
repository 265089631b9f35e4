// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The key types of sets, which are nft's types.

use weirgate_state::Key;

/// nft's numbers of types that are not a [`Key`] (`enum datatypes`, include/datatype.h of
/// nftables), so that `nft list` can print them.
pub(super) const TYPE_NFPROTO: u32 = 2;
pub(super) const TYPE_ETHERTYPE: u32 = 10;
pub(super) const TYPE_CLASSID: u32 = 23;

/// Returns the key whose type has this number.
pub(super) fn key_of(number: u32) -> Option<Key> {
    Key::ALL.into_iter().find(|key| key.type_number() == number)
}
