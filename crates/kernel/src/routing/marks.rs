// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of marks in nf_tables, and the marks of connections.
//!
//! The comment of a rule is its line of text. The kernel never modifies a rule, and a replacement
//! has another comment. So the comments show whether the table is unmodified.

use crate::Kernel;
use crate::error::KernelError;
use crate::netlink::channel::Request;
use crate::netlink::wire::Attrs;
use crate::nft::decode::comment_of;
use crate::nft::encode::{comment, delete};
use crate::nft::{
    HOOK_OUTPUT, HOOK_POSTROUTING, HOOK_PREROUTING, NFGENMSG, family, label, message,
};
use libc::{NF_IP_PRI_MANGLE, NFPROTO_IPV4, NFPROTO_IPV6};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_APPEND, NLM_F_CREATE};
use nlink::netlink::nftables::{
    CmpOp, CtKey, Expr, MetaKey, NF_ACCEPT, NFT_MSG_GETRULE, NFT_MSG_GETTABLE, NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY,
    NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN,
    NFTA_RULE_TABLE, NFTA_RULE_USERDATA, NFTA_TABLE_NAME, NumgenKind, PayloadBase, Register,
    Verdict, write_expressions,
};
use std::net::IpAddr;
use weirgate_state::{DeviceName, MARKS_TABLE, MarkChain, MarkRule, Marking, Origin, Selector};

/// `IFNAMSIZ` (linux/if.h).
const NAME: usize = 16;

impl Kernel {
    /// Reads the table of marks; a modified one is returned as one without links.
    pub(super) async fn marking(&self) -> Result<Option<Marking>, KernelError> {
        let what = label(false, MARKS_TABLE);
        let mut ask = message(NFT_MSG_GETTABLE, 0, family(false));
        ask.append_attr_str(NFTA_TABLE_NAME, MARKS_TABLE);
        if self.nft.get(&ask, &what, true).await?.is_empty() {
            return Ok(None);
        }
        let mut ask = message(NFT_MSG_GETRULE, 0, family(false));
        ask.append_attr_str(NFTA_RULE_TABLE, MARKS_TABLE);
        let listed = self.nft.get(&ask, &what, false).await?;
        let rules = listed.iter().map(|payload| {
            let rule = Attrs::after(payload, NFGENMSG);
            let comment = rule.bytes(NFTA_RULE_USERDATA).and_then(comment_of);
            (
                rule.text(NFTA_RULE_CHAIN).unwrap_or_default(),
                comment.unwrap_or_default(),
            )
        });
        let rules: Vec<(String, String)> = rules.collect();
        let mut lines = Vec::new();
        for chain in MarkChain::ALL.map(MarkChain::name) {
            let own = rules.iter().filter(|(of, _)| of == chain);
            lines.extend(own.map(|(_, comment)| format!("{chain}: {comment}")));
        }
        // Rules in any other chain make the lines incomplete.
        let all = lines.len() == rules.len();
        let known = Marking::of_lines(&lines).filter(|_| all);
        Ok(Some(known.unwrap_or_default()))
    }
}

/// Returns the requests that replace the table.
pub(super) fn set(marking: &Marking) -> Vec<Request> {
    let title = label(false, MARKS_TABLE);
    let request = |message, what: String| Request {
        message,
        object: format!("{title} {what}"),
        origin: Origin::default(),
        frame: false,
    };
    let create = || {
        let mut table = message(NFT_MSG_NEWTABLE, NLM_F_CREATE, family(false));
        table.append_attr_str(NFTA_TABLE_NAME, MARKS_TABLE);
        request(table, String::new())
    };
    let mut out = vec![create(), delete(false, MARKS_TABLE), create()];
    let chains = MarkChain::ALL.into_iter();
    out.extend(chains.map(|one| request(chain(one), format!("chain {}", one.name()))));
    for (chain, rule) in marking.rules() {
        let line = marking.line(&rule);
        let mut message = message(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, family(false));
        message.append_attr_str(NFTA_RULE_TABLE, MARKS_TABLE);
        message.append_attr_str(NFTA_RULE_CHAIN, chain.name());
        write_expressions(&mut message, &expressions(marking.mask, &rule));
        message.append_attr(NFTA_RULE_USERDATA, &comment(&line));
        out.push(request(message, line));
    }
    out
}

fn chain(chain: MarkChain) -> MessageBuilder {
    // A packet whose mark changes at output is routed again (`nf_route`).
    let (hook, kind) = match chain {
        MarkChain::Prerouting => (HOOK_PREROUTING, "filter"),
        MarkChain::Output => (HOOK_OUTPUT, "route"),
        MarkChain::Postrouting => (HOOK_POSTROUTING, "filter"),
    };
    let mut head = message(NFT_MSG_NEWCHAIN, NLM_F_CREATE, family(false));
    head.append_attr_str(NFTA_CHAIN_TABLE, MARKS_TABLE);
    head.append_attr_str(NFTA_CHAIN_NAME, chain.name());
    let nest = head.nest_start(NFTA_CHAIN_HOOK);
    head.append_attr_u32_be(NFTA_HOOK_HOOKNUM, hook);
    head.append_attr_u32_be(NFTA_HOOK_PRIORITY, NF_IP_PRI_MANGLE as u32);
    head.nest_end(nest);
    head.append_attr_u32_be(NFTA_CHAIN_POLICY, NF_ACCEPT as u32);
    head.append_attr_str(NFTA_CHAIN_TYPE, kind);
    head
}

/// Returns a rule's expressions. Values and masks of marks are in host byte order.
fn expressions(mask: u32, rule: &MarkRule) -> Vec<Expr> {
    let mut out = Vec::new();
    match rule {
        MarkRule::Arrives(device, value) | MarkRule::Leaves(device, value) => {
            let key = match rule {
                MarkRule::Arrives(..) => MetaKey::IifName,
                _ => MetaKey::OifName,
            };
            by_device(&mut out, key, device);
            connection_has(&mut out, mask, 0);
            out.extend([
                Expr::Ct {
                    dreg: Register::R0,
                    key: CtKey::Mark,
                },
                bits(!mask, *value),
                Expr::CtSet {
                    key: CtKey::Mark,
                    sreg: Register::R0,
                },
            ]);
        }
        MarkRule::Through(device) => {
            by_device(&mut out, MetaKey::IifName, device);
            out.push(Expr::Verdict(Verdict::Accept));
        }
        MarkRule::Restore(value) => {
            connection_has(&mut out, mask, *value);
            mark(&mut out, mask, *value);
        }
        MarkRule::Choose {
            selector,
            value,
            part,
            of,
        } => {
            selected(&mut out, selector);
            if part < of {
                out.extend([
                    Expr::Numgen {
                        dreg: Register::R0,
                        kind: NumgenKind::Incremental,
                        modulus: *of,
                        offset: 0,
                    },
                    // Numbers are compared as bytes.
                    Expr::Byteorder {
                        sreg: Register::R0,
                        dreg: Register::R0,
                        op: nlink::netlink::nftables::ByteorderOp::Hton,
                        len: 4,
                        size: 4,
                    },
                    Expr::Cmp {
                        sreg: Register::R0,
                        op: CmpOp::Lt,
                        data: part.to_be_bytes().to_vec(),
                    },
                ]);
            }
            mark(&mut out, mask, *value);
        }
    }
    out
}

fn selected(out: &mut Vec<Expr>, selector: &Selector) {
    let nets = [(selector.from, true), (selector.to, false)];
    for (net, source) in nets {
        if let Some((address, length)) = net {
            prefix(out, address, length, source);
        }
    }
    let Some(transport) = selector.transport else {
        return;
    };
    out.extend([
        Expr::Meta {
            dreg: Register::R0,
            key: MetaKey::L4Proto,
        },
        equal(vec![transport.protocol]),
    ]);
    if let Some((from, to)) = transport.to_port {
        let bound = |op, port: u16| Expr::Cmp {
            sreg: Register::R0,
            op,
            data: port.to_be_bytes().to_vec(),
        };
        out.extend([
            // The destination port is in bytes 2 and 3 of each header with ports (RFC 768).
            Expr::Payload {
                dreg: Register::R0,
                base: PayloadBase::Transport,
                offset: 2,
                len: 2,
            },
            bound(CmpOp::Gte, from),
            bound(CmpOp::Lte, to),
        ]);
    }
}

fn by_device(out: &mut Vec<Expr>, key: MetaKey, device: &DeviceName) {
    let mut name = device.as_str().as_bytes().to_vec();
    name.resize(NAME, 0);
    out.extend([
        Expr::Meta {
            dreg: Register::R0,
            key,
        },
        equal(name),
    ]);
}

/// Matches a connection whose mark has this value under the mask.
fn connection_has(out: &mut Vec<Expr>, mask: u32, value: u32) {
    out.extend([
        Expr::Ct {
            dreg: Register::R0,
            key: CtKey::Mark,
        },
        bits(mask, 0),
        equal(value.to_ne_bytes().to_vec()),
    ]);
}

/// Sets these bits of the packet's mark, and accepts the packet.
fn mark(out: &mut Vec<Expr>, mask: u32, value: u32) {
    out.extend([
        Expr::Meta {
            dreg: Register::R0,
            key: MetaKey::Mark,
        },
        bits(!mask, value),
        Expr::MetaSet {
            key: MetaKey::Mark,
            sreg: Register::R0,
        },
        Expr::Verdict(Verdict::Accept),
    ]);
}

/// Matches packets of the prefix's IP version with that source or destination.
fn prefix(out: &mut Vec<Expr>, address: IpAddr, length: u8, source: bool) {
    // The offsets of the addresses (RFC 791 section 3.1, RFC 8200 section 3).
    let (version, bytes, offsets) = match address {
        IpAddr::V4(v4) => (NFPROTO_IPV4, v4.octets().to_vec(), [12, 16]),
        IpAddr::V6(v6) => (NFPROTO_IPV6, v6.octets().to_vec(), [8, 24]),
    };
    let size = bytes.len();
    let part = |at: usize| {
        let left = usize::from(length).saturating_sub(at * 8).min(8);
        (0xff00_u16 >> left) as u8
    };
    out.extend([
        Expr::Meta {
            dreg: Register::R0,
            key: MetaKey::NfProto,
        },
        equal(vec![version as u8]),
    ]);
    if length == 0 {
        return;
    }
    out.extend([
        Expr::Payload {
            dreg: Register::R0,
            base: PayloadBase::Network,
            offset: if source { offsets[0] } else { offsets[1] },
            len: size as u32,
        },
        Expr::Bitwise {
            sreg: Register::R0,
            dreg: Register::R0,
            len: size as u32,
            mask: (0..size).map(part).collect(),
            xor: vec![0; size],
        },
        equal(bytes),
    ]);
}

fn equal(data: Vec<u8>) -> Expr {
    Expr::Cmp {
        sreg: Register::R0,
        op: CmpOp::Eq,
        data,
    }
}

fn bits(mask: u32, xor: u32) -> Expr {
    Expr::Bitwise {
        sreg: Register::R0,
        dreg: Register::R0,
        len: 4,
        mask: mask.to_ne_bytes().to_vec(),
        xor: xor.to_ne_bytes().to_vec(),
    }
}
