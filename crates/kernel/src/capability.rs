// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kernel offers, asked in a way that changes nothing.
//!
//! Each question is a request that must fail: a kernel that knows the thing
//! complains about a detail, one that does not about the thing. Asking also
//! makes the kernel load the modules that it has, which is what applying a
//! policy would do.

use crate::Kernel;
use crate::channel::Request;
use crate::error::{EINVAL, ENOENT, EOPNOTSUPP, EPERM, KernelError, Refusal};
use crate::link;
use crate::nft;
use crate::payload;
use crate::tc::{self, RTM_NEWQDISC, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, encode};
use nlink::netlink::MessageBuilder;
use std::path::Path;
use weirgate_state::{
    Capabilities, Chain, DeviceName, Field, Hook, IpVersion, Match, Origin, Rule, Table,
};
use weirgate_units::Handle;

const NLM_F_CREATE_EXCL: u16 = 0x600;

/// The kernel's type information (`CONFIG_DEBUG_INFO_BTF`).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Whether a release is one that can have qdiscs made of programs
/// (net/sched/bpf_qdisc.c, Linux 6.16). Whether it has shows when one is loaded.
fn takes_programs(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|word| word.parse::<u32>().unwrap_or(0));
    let own = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    own >= (6, 16)
}

impl Kernel {
    /// Asks the kernel for everything that [`Capabilities`] names. Needs
    /// CAP_NET_ADMIN, as the changes themselves do.
    ///
    /// Of the classifier of payloads it says only whether this process has one;
    /// [`can_look`](crate::can_look) looks for what it needs.
    pub async fn capabilities(&self) -> Result<Capabilities, KernelError> {
        let mut found = Capabilities {
            release: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            ..Capabilities::default()
        };
        let Some(lo) = DeviceName::new("lo") else {
            return Ok(found);
        };
        let crate::DeviceIndex(index) = self.device(&lo).await?;
        for kind in Capabilities::all().qdiscs {
            // An unknown kind is ENOENT before its settings are looked at
            // (`qdisc_create`, net/sched/sch_api.c).
            let refusal = self.ask(probe_qdisc(index, &kind), &kind).await?;
            if refusal.is_none_or(|refusal| refusal.errno != ENOENT) {
                found.qdiscs.insert(kind);
            }
        }
        let ifb = self.ask(link::probe_ifb(), "ifb").await?;
        found.ifb = ifb.is_some_and(|refusal| refusal.errno == EINVAL);
        let ctinfo = self.ask(tc::arriving::probe(), "act_ctinfo").await?;
        found.restore_marks = ctinfo.is_some_and(|refusal| refusal.errno == EINVAL);
        found.payload = payload::is_provided();
        found.nft_postrouting = self
            .table_works(false, Hook::Postrouting { device: lo.clone() }, &lo, index)
            .await?;
        let egress = Hook::Egress { device: lo.clone() };
        found.nft_egress = self.table_works(true, egress, &lo, index).await?;
        let ingress = Hook::Ingress {
            device: lo.clone(),
            redirect_to: lo.clone(),
        };
        found.nft_ingress_forward = self.table_works(true, ingress, &lo, index).await?;
        found.kit = Path::new(TYPES).exists() && takes_programs(&found.release);
        Ok(found)
    }

    /// One request that must fail; the refusal.
    async fn ask(
        &self,
        message: MessageBuilder,
        what: &str,
    ) -> Result<Option<Refusal>, KernelError> {
        let request = Request {
            message,
            object: format!("asking for {what}"),
            origin: Origin::default(),
            frame: false,
        };
        let refusal = self.route.answers(vec![request]).await?.into_iter().next();
        permitted(refusal)
    }

    /// Whether a transaction would succeed with a table of every kind of match,
    /// up to its last request, which is made to fail so that nothing is done.
    async fn table_works(
        &self,
        netdev: bool,
        hook: Hook,
        lo: &DeviceName,
        index: u32,
    ) -> Result<bool, KernelError> {
        let table = probe_table(netdev, hook, lo);
        let mut requests = nft::encode::set(&table, |_| Some(index))?;
        let last = "no-such-table";
        requests.push(nft::encode::delete(netdev, last));
        let refused = self.nft.answers(nft::encode::transaction(requests)).await?;
        let others: Vec<Refusal> = refused
            .into_iter()
            .filter(|refusal| !refusal.object.contains(last))
            .collect();
        match permitted(others.into_iter().next())? {
            None => Ok(true),
            Some(refusal) if [ENOENT, EOPNOTSUPP, EINVAL].contains(&refusal.errno) => Ok(false),
            Some(refusal) => Err(KernelError::Refused(refusal)),
        }
    }
}

/// A refusal for want of permission is no answer.
fn permitted(refusal: Option<Refusal>) -> Result<Option<Refusal>, KernelError> {
    match refusal {
        Some(refusal) if refusal.errno == EPERM => Err(KernelError::Refused(refusal)),
        other => Ok(other),
    }
}

/// A qdisc with settings of a size that its kind does not take.
fn probe_qdisc(index: u32, kind: &str) -> MessageBuilder {
    let mut message = encode::message(RTM_NEWQDISC, NLM_F_CREATE_EXCL, index, 0, TC_H_ROOT);
    message.append_attr_str(TCA_KIND, kind);
    if ["pfifo", "bfifo", "sfq"].contains(&kind) {
        message.append_attr(TCA_OPTIONS, &[0]);
    } else {
        let nest = message.nest_start(TCA_OPTIONS);
        for attribute in 1..=4 {
            message.append_attr(attribute, &[0]);
        }
        message.nest_end(nest);
    }
    message
}

fn probe_table(netdev: bool, hook: Hook, lo: &DeviceName) -> Table {
    let empty = |version| Match::TcpPayloadEmpty {
        version,
        negated: false,
    };
    let rule = |matches| Rule::classify(matches, Handle::new(1, 1), Origin::default()).guarded();
    Table {
        netdev,
        name: String::from("weirgate-probe"),
        sets: vec![weirgate_state::port_protocols()],
        chains: vec![Chain {
            name: String::from("probe"),
            hook,
            rules: vec![
                rule(vec![
                    Match::text(Field::InputDevice, lo.as_str()),
                    empty(IpVersion::V4),
                    Match::range(Field::SourcePort, 1, 2),
                ]),
                rule(vec![empty(IpVersion::V6)]),
                rule(vec![Match::one(Field::DestinationPort, 1)]),
            ],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_qdiscs_from_a_release_on() {
        for (release, able) in [
            ("6.16.0", true),
            ("7.3.4+deb14-cloud-amd64", true),
            ("6.1.0-31-amd64", false),
            ("6.9.12", false),
            ("", false),
        ] {
            assert_eq!(takes_programs(release), able, "{release}");
        }
    }
}
