// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines what a kernel offers, by requests that change nothing.
//!
//! Each probe is a request that must fail. A kernel that knows the feature complains about a
//! detail; one that does not complains about the feature. A probe also makes the kernel load
//! modules that it has, as applying a policy would.

use crate::Kernel;
use crate::error::{KernelError, Refusal};
use crate::link;
use crate::netlink::channel::Request;
use crate::nft;
use crate::observe::btf;
use crate::tc::{self, TC_H_ROOT, encode};
use libc::{EINVAL, ENOENT, EOPNOTSUPP, EPERM, RTM_NEWQDISC, TCA_KIND, TCA_STAB};
use nlink::netlink::MessageBuilder;
use weirgate_state::{
    Capabilities, Chain, Content, DeviceName, Effect, Field, Frame, Hook, IpVersion, Match, Origin,
    Refreshed, Rule, RuleVerdict, Set, Table,
};
use weirgate_units::Handle;

/// `NLM_F_CREATE`, `NLM_F_EXCL` and `NLM_F_REPLACE`: create it in place of any root that is there
/// (`tc_modify_qdisc`, net/sched/sch_api.c). Without the last, older kernels answer EEXIST beside a
/// root, before they look the kind up.
const CREATE_ANEW: u16 = 0x700;

/// The flag for an answer of yes or no.
type Flag = fn(&mut Capabilities) -> &mut bool;

/// What a probe answers.
enum Answer {
    /// Whether tables can have this hook.
    Hook(Flag),
    /// Whether the kernel knows a field.
    Field(Field),
}

impl Kernel {
    /// Probes the kernel for everything that [`Capabilities`] names. Needs CAP_NET_ADMIN, as the
    /// changes themselves do.
    ///
    /// The payload classifier is assumed to work; [`can_look`](crate::can_look) checks what it
    /// needs.
    pub async fn capabilities(&self) -> Result<Capabilities, KernelError> {
        self.capabilities_beside(None).await
    }

    /// Does the same with an earlier result of this boot. Probes only what was missing then and may
    /// have appeared since, because modules can be loaded.
    pub async fn capabilities_beside(
        &self,
        known: Option<&Capabilities>,
    ) -> Result<Capabilities, KernelError> {
        let most = weirgate_bpf::most_capabilities();
        let mut found = Capabilities {
            release: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            payload: most.payload,
            small: most.small,
            ..known.cloned().unwrap_or_default()
        };
        let Some(lo) = DeviceName::new("lo") else {
            return Ok(found);
        };
        let crate::DeviceIndex(index) = self.device(&lo).await?;
        for kind in most.qdiscs.difference(&found.qdiscs.clone()) {
            // An unknown kind fails with ENOENT before its settings are checked (`qdisc_create`,
            // net/sched/sch_api.c).
            let refusal = self.ask(probe_qdisc(index, kind), kind).await?;
            if refusal.is_none_or(|refusal| refusal.errno != ENOENT) {
                found.qdiscs.insert(kind.clone());
            }
        }
        if !found.ifb {
            let ifb = self.ask(link::probe_ifb(), "ifb").await?;
            found.ifb = ifb.is_some_and(|refusal| refusal.errno == EINVAL);
        }
        if !found.restore_marks {
            let ctinfo = self.ask(tc::filters::probe(), "act_ctinfo").await?;
            found.restore_marks = ctinfo.is_some_and(|refusal| refusal.errno == EINVAL);
        }
        self.ask_for_tables(&mut found, &lo, index).await?;
        // This is compiled in or not; it is never a module.
        let asked = known.filter(|known| !known.small);
        found.kit = most.kit && asked.map_or_else(btf::has_program_qdiscs, |known| known.kit);
        Ok(found)
    }

    /// Determines which kinds of chains nf_tables has, and which fields it knows.
    async fn ask_for_tables(
        &self,
        found: &mut Capabilities,
        lo: &DeviceName,
        index: u32,
    ) -> Result<(), KernelError> {
        let ingress = Hook::Ingress {
            device: lo.clone(),
            redirect_to: lo.clone(),
        };
        let (egress, device) = (Hook::Egress { device: lo.clone() }, lo.clone());
        let hooks: [(bool, Hook, Flag); 3] = [
            (false, Hook::Postrouting { device }, |found| {
                &mut found.nft_postrouting
            }),
            (true, egress, |found| &mut found.nft_egress),
            (true, ingress, |found| &mut found.nft_ingress_forward),
        ];
        let mut questions: Vec<(Table, Answer)> = Vec::new();
        for (netdev, hook, known) in hooks {
            if !*known(found) {
                let table = probe_table(netdev, hook, lo, questions.len());
                questions.push((table, Answer::Hook(known)));
            }
        }
        for field in Field::optional().filter(|field| !found.has_field(*field)) {
            let table = probe_field(field, questions.len());
            questions.push((table, Answer::Field(field)));
        }
        // Aborting a transaction waits until no packet can see it any more (`synchronize_rcu`),
        // which takes longer than everything else. So probe everything at once, and individually
        // only if that fails.
        let (tables, answers): (Vec<Table>, Vec<Answer>) = questions.into_iter().unzip();
        let all = self.tables_work(&tables, index).await?;
        for (table, answer) in tables.into_iter().zip(answers) {
            if !all && !self.tables_work(&[table], index).await? {
                continue;
            }
            match answer {
                Answer::Hook(known) => *known(found) = true,
                Answer::Field(field) => found.add_field(field),
            }
        }
        Ok(())
    }

    /// Sends one request that must fail. Returns the refusal.
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

    /// Returns whether a transaction with these tables succeeds up to its last request, which is
    /// made to fail so that nothing changes.
    async fn tables_work(&self, tables: &[Table], index: u32) -> Result<bool, KernelError> {
        if tables.is_empty() {
            return Ok(true);
        }
        let mut requests = Vec::new();
        for table in tables {
            requests.extend(nft::encode::set(table, |_| Some(index))?);
        }
        let last = "no-such-table";
        requests.push(nft::encode::delete(false, last));
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

/// A refusal for lack of permission is not an answer.
fn permitted(refusal: Option<Refusal>) -> Result<Option<Refusal>, KernelError> {
    match refusal {
        Some(refusal) if refusal.errno == EPERM => Err(KernelError::Refused(refusal)),
        other => Ok(other),
    }
}

/// Requests a qdisc with an empty size table. The kernel refuses this for any kind and reports it
/// to nobody else (`qdisc_get_stab`, net/sched/sch_api.c). Settings of a wrong size would each
/// write a line to its log.
fn probe_qdisc(index: u32, kind: &str) -> MessageBuilder {
    let mut message = encode::message(RTM_NEWQDISC, CREATE_ANEW, index, 0, TC_H_ROOT);
    message.append_attr_str(TCA_KIND, kind);
    let nest = message.nest_start(TCA_STAB);
    message.nest_end(nest);
    message
}

/// Returns a table with every kind of match that its hook supports.
fn probe_table(netdev: bool, hook: Hook, lo: &DeviceName, number: usize) -> Table {
    let empty = |version| Match::TcpPayloadEmpty {
        version,
        negated: false,
    };
    let rule = |matches| Rule::classify(matches, Handle::new(1, 1), Origin::default()).guarded();
    Table {
        netdev,
        name: format!("weirgate-probe-{number}"),
        sets: vec![weirgate_state::port_protocols()].into(),
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
            ]
            .into(),
        }],
    }
}

/// Returns a table that looks a field up at output, where the kernel knows all optional fields.
fn probe_field(field: Field, number: usize) -> Table {
    const SET: &str = "values";
    let set = |key| Set {
        name: SET.to_owned(),
        key,
        content: Content::Refreshed(Refreshed::default()),
        origin: Origin::default(),
    };
    Table {
        netdev: false,
        name: format!("weirgate-probe-{number}"),
        sets: field.key().map(set).into_iter().collect::<Vec<_>>().into(),
        chains: vec![Chain {
            name: String::from("probe"),
            hook: Hook::Output,
            rules: vec![Rule {
                frame: Frame::Plain,
                matches: vec![Match::within(field, SET)],
                counter: None,
                effects: vec![Effect::Mark { mask: 1, value: 1 }],
                verdict: RuleVerdict::Final,
                origin: Origin::default(),
            }]
            .into(),
        }],
    }
}
