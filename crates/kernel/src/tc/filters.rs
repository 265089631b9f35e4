// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters of weirgate's where packets arrive, and the one where they leave:
//! requests out, listings in.
//!
//! The filter that restores marks is known for weirgate's by its preference,
//! its kind and the cookie of its action; the classifier of payloads by its
//! preference, its kind and its name, which says into which bits it writes and
//! of which version its program is. Both answer "continue", so that filters of
//! others with a greater preference see each packet as they would without them.

use super::decode::Entry;
use crate::netlink::wire::{self, Attrs};
use libc::{
    RTM_DELQDISC, RTM_DELTFILTER, RTM_NEWACTION, RTM_NEWQDISC, RTM_NEWTFILTER, TCA_KIND,
    TCA_OPTIONS,
};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST};
use nlink::netlink::types::tc::TCA_ACT_TAB;
use nlink::netlink::types::tc::action::ctinfo::{
    TCA_CTINFO_ACT, TCA_CTINFO_PARMS_DSCP_MASK, TCA_CTINFO_ZONE,
};
use nlink::netlink::types::tc::action::{
    TC_ACT_UNSPEC, TCA_ACT_COOKIE, TCA_ACT_KIND, TCA_ACT_OPTIONS,
};
use nlink::netlink::types::tc::filter::bpf::{
    TCA_BPF_FD, TCA_BPF_FLAG_ACT_DIRECT, TCA_BPF_FLAGS, TCA_BPF_FLAGS_GEN, TCA_BPF_ID,
    TCA_BPF_NAME, TCA_BPF_TAG,
};
use nlink::netlink::types::tc::filter::flower::TCA_CLS_FLAGS_SKIP_HW;
use nlink::netlink::types::tc::filter::matchall::{TCA_MATCHALL_ACT, TCA_MATCHALL_FLAGS};
use std::os::fd::RawFd;
use weirgate_plan::{
    CONDITION_PREFERENCE, DATAGRAMS_PREFERENCE, HOLD_PREFERENCE, ORDER_PREFERENCE,
    PAYLOAD_PREFERENCE, RESTORE_PREFERENCE, WINDOWS_PREFERENCE,
};
use weirgate_signatures::BITS;
use weirgate_state::{Arriving, Hold, Payload};

/// The parent and the handle of a `clsact` or `ingress` qdisc, and the places
/// of its filters, for arriving packets first (linux/pkt_sched.h).
pub(crate) const TC_H_CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const TC_H_MIN_INGRESS: u32 = 0xffff_fff2;
const TC_H_MIN_EGRESS: u32 = 0xffff_fff3;
pub(crate) const CLSACT_PLACES: [u32; 2] = [TC_H_MIN_INGRESS, TC_H_MIN_EGRESS];

/// `ETH_P_ALL` (linux/if_ether.h).
const ETH_P_ALL: u16 = 3;

/// linux/tc_act/tc_ctinfo.h; nlink has the others of its attributes.
const TCA_CTINFO_CPMARK_MASK: u16 = 7;

/// What tells that an action is weirgate's.
const COOKIE: &[u8] = b"weirgate";

/// `struct tc_ctinfo`: index, capabilities, action, two counts of users.
const TC_CTINFO: usize = 20;

/// The requests that make what `after` says of what `before` says.
pub(crate) fn change(
    ifindex: u32,
    before: Option<&Arriving>,
    after: Option<&Arriving>,
    programs: Programs,
) -> Vec<MessageBuilder> {
    let mut out = Vec::new();
    if before.is_none() {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let mut add = message(RTM_NEWQDISC, flags, ifindex, CLSACT_HANDLE, TC_H_CLSACT, 0);
        add.append_attr_str(TCA_KIND, "clsact");
        out.push(add);
    }
    let (old, new) = (
        before.and_then(|place| place.restore),
        after.and_then(|place| place.restore),
    );
    if old.is_some() && old != new {
        let mut delete = filter(RTM_DELTFILTER, 0, ifindex, RESTORE_PREFERENCE);
        delete.append_attr_str(TCA_KIND, "matchall");
        out.push(delete);
    }
    if let Some(mask) = new.filter(|_| old != new) {
        out.push(restore(ifindex, mask));
    }
    let had = |has: fn(&Arriving) -> bool| {
        before.is_some_and(has) && after.is_none_or(|place| !has(place))
    };
    if let (Some(payload), Some(program)) = (new_payload(before, after), programs.payload) {
        let name = look_name(payload.lowest);
        out.push(attach(ifindex, Own::Payload, &name, program));
    } else if had(|place| place.payload.is_some()) {
        out.push(detach(ifindex, Own::Payload));
    }
    let others = [
        (Own::Hold, programs.hold, had(|place| place.hold.is_some())),
        (
            Own::WindowIn,
            programs.windows.map(|pair| pair.0),
            had(|place| place.windows.is_some()),
        ),
        (
            Own::WindowOut,
            programs.windows.map(|pair| pair.1),
            had(|place| place.windows.is_some()),
        ),
        (
            Own::Datagrams,
            programs.datagrams,
            had(|place| place.datagrams.is_some()),
        ),
        (
            Own::Entering,
            programs.entering,
            had(|place| place.entering.is_some()),
        ),
        (
            Own::Leaving,
            programs.leaving,
            had(|place| place.leaving.is_some()),
        ),
        (
            Own::OrderIn,
            programs.order.map(|pair| pair.0),
            had(|place| place.order.is_some()),
        ),
        (
            Own::OrderOut,
            programs.order.map(|pair| pair.1),
            had(|place| place.order.is_some()),
        ),
    ];
    for (own, program, goes) in others {
        match program {
            Some(program) => out.push(attach(ifindex, own, &own.name(), program)),
            None if goes => out.push(detach(ifindex, own)),
            None => {}
        }
    }
    if after.is_none() && before.is_some_and(|place| !place.others) {
        out.push(remove(ifindex));
    }
    out
}

/// Weirgate's programs at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    Payload,
    Hold,
    WindowIn,
    WindowOut,
    Datagrams,
    Entering,
    Leaving,
    OrderIn,
    OrderOut,
}

impl Own {
    /// Where it hangs, and by which preference.
    const fn place(self) -> (u32, u16) {
        match self {
            Self::Payload => (TC_H_MIN_INGRESS, PAYLOAD_PREFERENCE),
            Self::Hold => (TC_H_MIN_INGRESS, HOLD_PREFERENCE),
            Self::WindowIn => (TC_H_MIN_INGRESS, WINDOWS_PREFERENCE),
            Self::WindowOut => (TC_H_MIN_EGRESS, WINDOWS_PREFERENCE),
            Self::Datagrams => (TC_H_MIN_INGRESS, DATAGRAMS_PREFERENCE),
            Self::Entering => (TC_H_MIN_INGRESS, CONDITION_PREFERENCE),
            Self::Leaving => (TC_H_MIN_EGRESS, CONDITION_PREFERENCE),
            Self::OrderIn => (TC_H_MIN_INGRESS, ORDER_PREFERENCE),
            Self::OrderOut => (TC_H_MIN_EGRESS, ORDER_PREFERENCE),
        }
    }

    /// What its name begins with.
    const fn label(self) -> &'static str {
        match self {
            Self::Payload => LOOK_NAME,
            Self::Hold => "weirgate-inbound-",
            Self::WindowIn => "weirgate-window-in-",
            Self::WindowOut => "weirgate-window-out-",
            Self::Datagrams => "weirgate-udp-",
            Self::Entering => "weirgate-condition-in-",
            Self::Leaving => "weirgate-condition-out-",
            Self::OrderIn => "weirgate-order-in-",
            Self::OrderOut => "weirgate-order-out-",
        }
    }

    /// Its name: the version of its program.
    fn name(self) -> String {
        let digest = match self {
            Self::Payload => weirgate_signatures::digest(),
            Self::Hold => weirgate_bpf::digest("ingress_meredt"),
            Self::WindowIn | Self::WindowOut => weirgate_bpf::digest("window"),
            Self::Datagrams => weirgate_bpf::digest("udp"),
            Self::Entering | Self::Leaving => weirgate_bpf::digest("condition"),
            Self::OrderIn | Self::OrderOut => weirgate_bpf::digest("order"),
        };
        format!("{}{digest:08x}", self.label())
    }
}

/// The programs that a change attaches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Programs {
    /// The classifier of payloads.
    pub payload: Option<RawFd>,
    /// The filter that holds what arrives to a rate.
    pub hold: Option<RawFd>,
    /// What chooses receive windows: for what arrives, for what leaves.
    pub windows: Option<(RawFd, RawFd)>,
    /// The filter of datagrams.
    pub datagrams: Option<RawFd>,
    /// What conditions packets that enter.
    pub entering: Option<RawFd>,
    /// What conditions packets that leave.
    pub leaving: Option<RawFd>,
    /// What keeps connections in order: for what arrives, for what leaves.
    pub order: Option<(RawFd, RawFd)>,
}

/// What such a change says of the filter that holds a rate; `None` where it
/// says nothing.
pub(crate) fn new_hold<'a>(
    before: Option<&Arriving>,
    after: Option<&'a Arriving>,
) -> Option<&'a Hold> {
    let wanted = after.and_then(|place| place.hold.as_ref())?;
    let there = before.and_then(|place| place.hold.as_ref());
    (!Hold::same(Some(wanted), there)).then_some(wanted)
}

/// Whether the filter that is there can be told something else: it is of this
/// version.
pub(crate) fn can_be_told(before: Option<&Arriving>) -> bool {
    before.is_some_and(|place| place.hold.as_ref().is_some_and(|hold| !hold.stale))
}

/// The classifier that such a change attaches; `None` where it attaches none.
pub(crate) fn new_payload(before: Option<&Arriving>, after: Option<&Arriving>) -> Option<Payload> {
    let wanted = after.and_then(|place| place.payload)?;
    let there = before.and_then(|place| place.payload);
    (there != Some(wanted)).then_some(wanted)
}

/// Deletes the place with all filters.
pub(crate) fn remove(ifindex: u32) -> MessageBuilder {
    message(RTM_DELQDISC, 0, ifindex, CLSACT_HANDLE, TC_H_CLSACT, 0)
}

/// A request that must fail: ENOENT where there is no such action, EINVAL for
/// want of its settings where there is (`tcf_ctinfo_init`,
/// net/sched/act_ctinfo.c).
pub(crate) fn probe() -> MessageBuilder {
    let mut message = MessageBuilder::new(RTM_NEWACTION, NLM_F_REQUEST | NLM_F_CREATE);
    // `struct tcamsg`.
    message.append_bytes(&[0; 4]);
    let table = message.nest_start(TCA_ACT_TAB);
    let action = message.nest_start(1);
    message.append_attr_str(TCA_ACT_KIND, "ctinfo");
    message.nest_end(action);
    message.nest_end(table);
    message
}

fn restore(ifindex: u32, mask: u32) -> MessageBuilder {
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let mut message = filter(RTM_NEWTFILTER, flags, ifindex, RESTORE_PREFERENCE);
    message.append_attr_str(TCA_KIND, "matchall");
    let options = message.nest_start(TCA_OPTIONS);
    // A card could not look into the connection.
    message.append_attr_u32(TCA_MATCHALL_FLAGS, TCA_CLS_FLAGS_SKIP_HW);
    let actions = message.nest_start(TCA_MATCHALL_ACT);
    let action = message.nest_start(1);
    message.append_attr_str(TCA_ACT_KIND, "ctinfo");
    message.append_attr(TCA_ACT_COOKIE, COOKIE);
    let settings = message.nest_start(TCA_ACT_OPTIONS);
    let mut general = vec![0_u8; 8];
    general.extend(TC_ACT_UNSPEC.to_ne_bytes());
    general.resize(TC_CTINFO, 0);
    message.append_attr(TCA_CTINFO_ACT, &general);
    message.append_attr_u32(TCA_CTINFO_CPMARK_MASK, mask);
    for nest in [settings, action, actions, options] {
        message.nest_end(nest);
    }
    message
}

/// A program, in place of one that is there: it is exchanged between two packets
/// (`cls_bpf_change`, net/sched/cls_bpf.c).
fn attach(ifindex: u32, own: Own, name: &str, program: RawFd) -> MessageBuilder {
    let mut message = at(RTM_NEWTFILTER, NLM_F_CREATE, ifindex, own.place());
    message.append_attr_str(TCA_KIND, "bpf");
    let options = message.nest_start(TCA_OPTIONS);
    message.append_attr_u32(TCA_BPF_FD, program.cast_unsigned());
    message.append_attr_str(TCA_BPF_NAME, name);
    message.append_attr_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
    message.append_attr_u32(TCA_BPF_FLAGS_GEN, TCA_CLS_FLAGS_SKIP_HW);
    message.nest_end(options);
    message
}

/// Takes a program away.
fn detach(ifindex: u32, own: Own) -> MessageBuilder {
    let mut message = at(RTM_DELTFILTER, 0, ifindex, own.place());
    message.append_attr_str(TCA_KIND, "bpf");
    message
}

const LOOK_NAME: &str = "weirgate-payload-";

/// The name of the classifier: the lowest bit that it writes, and its version.
fn look_name(lowest: u8) -> String {
    format!("{LOOK_NAME}{lowest}-{:08x}", weirgate_signatures::digest())
}

/// A request about a filter for arriving packets, by its preference.
fn filter(kind: u16, flags: u16, ifindex: u32, preference: u16) -> MessageBuilder {
    at(kind, flags, ifindex, (TC_H_MIN_INGRESS, preference))
}

/// A request about a filter of a place, by its preference.
fn at(kind: u16, flags: u16, ifindex: u32, (parent, preference): (u32, u16)) -> MessageBuilder {
    let info = u32::from(preference) << 16 | u32::from(ETH_P_ALL.to_be());
    message(kind, flags, ifindex, 1, parent, info)
}

fn message(
    kind: u16,
    flags: u16,
    ifindex: u32,
    handle: u32,
    parent: u32,
    info: u32,
) -> MessageBuilder {
    let mut message = MessageBuilder::new(kind, NLM_F_REQUEST | flags);
    let mut header = vec![0_u8; 4];
    header.extend(ifindex.cast_signed().to_ne_bytes());
    for word in [handle, parent, info] {
        header.extend(word.to_ne_bytes());
    }
    message.append_bytes(&header);
    message
}

/// Whether an entry of a listing is a filter: beside its filters, a classifier
/// lists itself and its tables, whose handles have no low bits.
pub(crate) fn is_filter(entry: &Entry<'_>) -> bool {
    entry.handle & 0xfff != 0 && entry.attrs.has(TCA_OPTIONS)
}

/// A program of weirgate's: what it was told stands in its maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its number.
    pub id: u32,
    /// Whether it is another version's.
    pub stale: bool,
}

/// The programs of a place whose settings are not in its listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holders {
    /// The filter that holds what arrives to a rate.
    pub hold: Option<Holder>,
    /// What sees data arrive for receive windows.
    pub window_in: Option<Holder>,
    /// What writes them.
    pub window_out: Option<Holder>,
    /// The filter of datagrams.
    pub datagrams: Option<Holder>,
    /// What conditions packets that enter.
    pub entering: Option<Holder>,
    /// What conditions packets that leave.
    pub leaving: Option<Holder>,
    /// What sees acknowledgements arrive of connections that are kept in order.
    pub order_in: Option<Holder>,
    /// What sees their data leave.
    pub order_out: Option<Holder>,
}

/// What the filters of a place are; each with the bytes that it was listed in.
/// Programs are told apart, as their settings are not in the listing.
pub(crate) fn read(payloads: &[Vec<u8>]) -> (Arriving, Holders) {
    let mut place = Arriving::default();
    let mut holders = Holders::default();
    for payload in payloads {
        let Some(entry) = Entry::of(payload).filter(is_filter) else {
            continue;
        };
        if let Some(mask) = restored(payload, &entry) {
            place.restore = Some(mask);
        } else if let Some(found) = looked(payload, &entry) {
            place.payload = Some(found);
        } else if let Some((own, found)) = holding(payload, &entry) {
            let of = match own {
                Own::WindowIn => &mut holders.window_in,
                Own::WindowOut => &mut holders.window_out,
                Own::Datagrams => &mut holders.datagrams,
                Own::Entering => &mut holders.entering,
                Own::Leaving => &mut holders.leaving,
                Own::OrderIn => &mut holders.order_in,
                Own::OrderOut => &mut holders.order_out,
                Own::Payload | Own::Hold => &mut holders.hold,
            };
            *of = Some(found);
        } else {
            place.others = true;
        }
    }
    (place, holders)
}

/// Whether a filter is weirgate's.
pub(crate) fn is_own(payload: &[u8], entry: &Entry<'_>) -> bool {
    restored(payload, entry).is_some()
        || looked(payload, entry).is_some()
        || holding(payload, entry).is_some()
}

/// The classifier of payloads that a filter is; `None` for any other filter.
fn looked(payload: &[u8], entry: &Entry<'_>) -> Option<Payload> {
    let preference = wire::u32_at(payload, 16)? >> 16;
    if preference != u32::from(PAYLOAD_PREFERENCE)
        || entry.parent != TC_H_MIN_INGRESS
        || entry.kind != "bpf"
    {
        return None;
    }
    let options = entry.attrs.nest(TCA_OPTIONS);
    let name = options.text(TCA_BPF_NAME)?;
    let lowest = name.strip_prefix(LOOK_NAME)?.split('-').next()?;
    let lowest: u8 = lowest.parse().ok()?;
    let direct = options
        .u32(TCA_BPF_FLAGS)
        .is_some_and(|flags| flags & TCA_BPF_FLAG_ACT_DIRECT != 0);
    // A classic program has no tag.
    let whole = direct && options.has(TCA_BPF_TAG);
    (u32::from(lowest) <= 32 - BITS).then(|| Payload {
        lowest,
        stale: !whole || name != look_name(lowest),
    })
}

/// Those that have nothing but their version in their name.
const HOLDERS: [Own; 8] = [
    Own::Hold,
    Own::WindowIn,
    Own::WindowOut,
    Own::Datagrams,
    Own::Entering,
    Own::Leaving,
    Own::OrderIn,
    Own::OrderOut,
];

/// The program of weirgate's that a filter is; `None` for any other filter.
fn holding(payload: &[u8], entry: &Entry<'_>) -> Option<(Own, Holder)> {
    let preference = wire::u32_at(payload, 16)? >> 16;
    if entry.kind != "bpf" {
        return None;
    }
    let options = entry.attrs.nest(TCA_OPTIONS);
    let name = options.text(TCA_BPF_NAME)?;
    let own = HOLDERS.into_iter().find(|own| {
        let (parent, own_preference) = own.place();
        entry.parent == parent
            && preference == u32::from(own_preference)
            && name.starts_with(own.label())
    })?;
    let holder = Holder {
        id: options.u32(TCA_BPF_ID).unwrap_or_default(),
        stale: name != own.name(),
    };
    Some((own, holder))
}

/// The mask of a filter that restores marks as weirgate makes it; `None` for
/// any other filter.
fn restored(payload: &[u8], entry: &Entry<'_>) -> Option<u32> {
    let preference = wire::u32_at(payload, 16)? >> 16;
    if preference != u32::from(RESTORE_PREFERENCE)
        || entry.parent != TC_H_MIN_INGRESS
        || entry.kind != "matchall"
    {
        return None;
    }
    let actions = entry.attrs.nest(TCA_OPTIONS).nest(TCA_MATCHALL_ACT);
    let mut each = actions.nests();
    let (action, None) = (each.next()?, each.next()) else {
        return None;
    };
    let known = action.text(TCA_ACT_KIND).as_deref() == Some("ctinfo");
    let settings: Attrs<'_> = action.nest(TCA_ACT_OPTIONS);
    let general = settings.bytes(TCA_CTINFO_ACT)?;
    let continues = wire::i32_at(general, 8)? == TC_ACT_UNSPEC;
    let alone = !settings.has(TCA_CTINFO_PARMS_DSCP_MASK)
        && settings
            .bytes(TCA_CTINFO_ZONE)
            .is_none_or(|zone| zone == [0, 0]);
    let own = action.bytes(TCA_ACT_COOKIE) == Some(COOKIE);
    (known && own && continues && alone).then(|| settings.u32(TCA_CTINFO_CPMARK_MASK))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel would list it.
    fn listed(message: MessageBuilder) -> Vec<u8> {
        message.finish()[16..].to_vec()
    }

    #[test]
    fn what_is_written_is_read() {
        let (place, _) = read(&[listed(restore(7, 0xff_0000))]);
        assert_eq!(place.restore, Some(0xff_0000));
        assert!(!place.others);
        assert_eq!(read(&[]), (Arriving::default(), Holders::default()));
    }

    #[test]
    fn a_classifier_is_known_by_its_name() {
        let payload = Payload {
            lowest: 24,
            stale: false,
        };
        let tagged = |name: &str| {
            let mut message = filter(RTM_NEWTFILTER, 0, 7, PAYLOAD_PREFERENCE);
            message.append_attr_str(TCA_KIND, "bpf");
            let options = message.nest_start(TCA_OPTIONS);
            message.append_attr_str(TCA_BPF_NAME, name);
            message.append_attr_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
            message.append_attr(TCA_BPF_TAG, &[7; 8]);
            message.nest_end(options);
            read(&[listed(message)]).0
        };
        let own = tagged(&look_name(24));
        assert_eq!(own.payload, Some(payload));
        assert!(!own.others);
        let old = tagged("weirgate-payload-24-00000000");
        assert_eq!(old.payload.map(|one| one.stale), Some(true));
        let foreign = tagged("weirgate-payload-30-00000000");
        assert!(foreign.others && foreign.payload.is_none());
        assert!(tagged("other").others);
        // What a request asks for has no tag yet.
        let (asked, _) = read(&[listed(attach(7, Own::Payload, &look_name(24), 3))]);
        assert_eq!(asked.payload.map(|one| one.stale), Some(true));
    }

    #[test]
    fn what_holds_a_rate_is_known_by_its_name() {
        for own in HOLDERS {
            let of = |holders: Holders| match own {
                Own::WindowIn => holders.window_in,
                Own::WindowOut => holders.window_out,
                Own::Datagrams => holders.datagrams,
                Own::Entering => holders.entering,
                Own::Leaving => holders.leaving,
                Own::OrderIn => holders.order_in,
                Own::OrderOut => holders.order_out,
                Own::Payload | Own::Hold => holders.hold,
            };
            let whole = listed(attach(7, own, &own.name(), 3));
            let (place, holders) = read(std::slice::from_ref(&whole));
            assert_eq!(
                (place.others, of(holders).map(|one| one.stale)),
                (false, Some(false))
            );
            let mut bytes = whole.clone();
            let at = bytes
                .windows(8)
                .position(|part| part == b"weirgate")
                .unwrap();
            bytes[at + own.label().len()] ^= 1;
            assert_eq!(
                of(read(&[bytes.clone()]).1).map(|one| one.stale),
                Some(true)
            );
            bytes[at] = b'v';
            let (place, holders) = read(&[bytes]);
            assert!(place.others && holders == Holders::default());
            // At the other place it is another's.
            let mut bytes = whole;
            let parent = own.place().0 ^ 1;
            bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
            assert!(read(&[bytes]).0.others);
        }
    }

    #[test]
    fn another_filter_is_anothers() {
        let mut bytes = listed(restore(7, 0xff_0000));
        let info = 86_u32 << 16;
        bytes[16..20].copy_from_slice(&info.to_ne_bytes());
        let (place, _) = read(&[bytes]);
        assert_eq!(place.restore, None);
        assert!(place.others);
    }

    #[test]
    fn any_bytes_are_harmless() {
        let whole = listed(restore(7, 1));
        for length in 0..whole.len() {
            let _ = read(&[whole[..length].to_vec()]);
            let mut spoiled = whole.clone();
            spoiled[length] ^= 0xff;
            let _ = read(&[spoiled]);
        }
    }
}
