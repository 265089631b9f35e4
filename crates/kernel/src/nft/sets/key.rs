// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a set is looked up by: nft's types.

use weirgate_state::Key;

/// nft's own numbers for types that no [`Key`] has (`enum datatypes`,
/// include/datatype.h of nftables), so that `nft list` can print them.
pub(super) const TYPE_NFPROTO: u32 = 2;
pub(super) const TYPE_ETHERTYPE: u32 = 10;
pub(super) const TYPE_CLASSID: u32 = 23;

/// The key whose type has a number.
pub(super) fn key_of(number: u32) -> Option<Key> {
    Key::ALL.into_iter().find(|key| key.type_number() == number)
}
