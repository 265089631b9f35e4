// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observes and changes one device alone. The cost does not depend on the number of devices. The
//! kernel can list the qdiscs of all devices or a single qdisc, so single ones are requested here.

use crate::Kernel;
use crate::error::{ApplyError, Cause, KernelError};
use crate::link;
use crate::netlink::wire;
use crate::nft::handle::Handles;
use crate::nft::narrow::Written;
use crate::observe::Scope;
use crate::tc::{self, TC_H_ROOT, decode::Entry};
use libc::{EINVAL, RTM_GETQDISC};
use nlink::netlink::message::NLM_F_ECHO;
use weirgate_plan::{Options, Plan, plan_with, verify};
use weirgate_state::{Device, DeviceName, QdiscKind, State};
use weirgate_units::Inserted as _;

/// The offset in `struct tcmsg` at which a class has the handle of its qdisc (`tcm_info`,
/// linux/rtnetlink.h).
const TCM_INFO: usize = 16;

impl Kernel {
    /// Returns a device with its qdisc tree, without offloads and hooks; `None` if there is none of
    /// this name.
    pub async fn observe_one(&self, name: &DeviceName) -> Result<Option<Device>, KernelError> {
        let ask = link::find(name);
        let found = self.route.get(&ask, name.as_str(), true).await?;
        let mut links = found.iter().filter_map(|payload| link::read(payload));
        // The kernel also finds a device by an alternative name.
        let Some(link) = links.find(|link| link.name == *name) else {
            return Ok(None);
        };
        let mut qdiscs = self.qdisc_at(link.index, TC_H_ROOT).await?;
        for class in self.classes(link.index).await? {
            let leaf = wire::u32_at(&class, TCM_INFO).filter(|leaf| *leaf != 0);
            if let (Some(entry), Some(_)) = (Entry::of(&class), leaf) {
                qdiscs.extend(self.qdisc_at(link.index, entry.handle).await?);
            }
        }
        let scope = Scope::default();
        let (device, _) = self.observe_device(&link, &qdiscs, &scope).await?;
        Ok(Some(device))
    }

    /// Requests the qdisc below a parent; nothing for a built-in one, which the kernel does not
    /// show (`TCQ_F_BUILTIN`, net/sched/sch_api.c).
    async fn qdisc_at(&self, index: u32, parent: u32) -> Result<Vec<Vec<u8>>, KernelError> {
        // Without NLM_F_ECHO the answer goes to listeners, and not to the requester
        // (`rtnetlink_send`, net/core/rtnetlink.c).
        let ask = tc::encode::message(RTM_GETQDISC, NLM_F_ECHO, index, 0, parent);
        match self.route.get(&ask, "asking for a qdisc", true).await {
            Err(KernelError::Refused(refusal)) if refusal.errno == EINVAL => Ok(Vec::new()),
            answer => answer,
        }
    }

    /// Carries out a plan for the tree of one device, and reads the result back. Restores the
    /// former tree if that fails.
    pub async fn apply_to_one(&self, name: &DeviceName, plan: &Plan) -> Result<(), ApplyError> {
        let Err(cause) = self.lead_one(name, plan).await else {
            return Ok(());
        };
        let Err(because) = self.take_one_back(name, &plan.before).await else {
            return Err(ApplyError::Restored { cause });
        };
        let (because, differences) = match because {
            Cause::Differs(differences) => (None, differences),
            because => (Some(because), Vec::new()),
        };
        Err(ApplyError::Lost {
            cause,
            because,
            differences,
        })
    }

    async fn lead_one(&self, name: &DeviceName, plan: &Plan) -> Result<(), Cause> {
        let (handles, mut written) = (Handles::new(), Written::default());
        self.carry_out(&plan.steps, &handles, &mut written).await?;
        // The caller need not hold the lock under which another process loads programs, if it needs
        // none itself.
        if [&plan.before, &plan.desired].into_iter().any(has_programs) {
            self.tidy().await?;
        }
        let after = self.state_of_one(name).await?;
        let differences = verify(&after, &plan.desired);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(Cause::Differs(differences))
        }
    }

    /// Restores the former tree; a device that is gone needs nothing.
    async fn take_one_back(&self, name: &DeviceName, before: &State) -> Result<(), Cause> {
        let now = self.state_of_one(name).await?;
        if now.devices.is_empty() || verify(&now, before).is_empty() {
            return Ok(());
        }
        let options = Options {
            previous: None,
            replace_foreign: true,
        };
        let back = plan_with(&now, before, &options).map_err(Cause::NoPlanBack)?;
        self.lead_one(name, &back).await
    }

    async fn state_of_one(&self, name: &DeviceName) -> Result<State, KernelError> {
        let device = self.observe_one(name).await?;
        Ok(State {
            devices: device
                .map(|device| (name.clone(), device))
                .into_iter()
                .inserted(),
            ..State::default()
        })
    }
}

/// Returns whether the root of a device is a program.
fn has_programs(state: &State) -> bool {
    let mut roots = state.devices.values().filter_map(|one| one.root.as_ref());
    roots.any(|root| matches!(root.kind, QdiscKind::Kit(_) | QdiscKind::Rows(_)))
}
