// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control group of a packet's sender in nf_tables: loaded by the expression `socket`
//! (`nft_socket_init`, net/netfilter/nft_socket.c), which nlink does not model for this key.

use crate::netlink::wire::Attrs;
use nlink::netlink::nftables::{
    Expr, NFTA_SOCKET_DREG, NFTA_SOCKET_KEY, NFTA_SOCKET_LEVEL, RawExpr, Register, RuleExpr,
};

const NAME: &str = "socket";
/// `NFT_SOCKET_CGROUPV2`.
const CONTROL_GROUP: u32 = 3;

/// Returns the expression that loads the group of a level into a register.
pub(super) fn load(level: u8, register: Register) -> Expr {
    let mut attributes = Vec::new();
    let words = [
        (NFTA_SOCKET_KEY, CONTROL_GROUP),
        (NFTA_SOCKET_DREG, register as u32),
        (NFTA_SOCKET_LEVEL, u32::from(level)),
    ];
    for (kind, value) in words {
        // Each attribute has a header of four bytes and one 32-bit word.
        attributes.extend(8_u16.to_ne_bytes());
        attributes.extend(kind.to_ne_bytes());
        attributes.extend(value.to_be_bytes());
    }
    RawExpr::new(NAME, attributes).into()
}

/// Returns level and register of an expression made by [`load`].
pub(super) fn loaded(expr: &RuleExpr) -> Option<(u8, Register)> {
    let RuleExpr::Unknown { name, data, .. } = expr else {
        return None;
    };
    let attributes = Attrs::of(data);
    let is_group = attributes.u32_be(NFTA_SOCKET_KEY) == Some(CONTROL_GROUP);
    if name != NAME || !is_group {
        return None;
    }
    let level = u8::try_from(attributes.u32_be(NFTA_SOCKET_LEVEL)?).ok()?;
    let number = attributes.u32_be(NFTA_SOCKET_DREG)?;
    // A group's number needs two words, so it is always in the first register.
    let mut registers = [Register::R0, Register::Reg32_00].into_iter();
    let register = registers.find(|register| *register as u32 == number)?;
    Some((level, register))
}
