// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attaches programs at a device's hooks by tcx, if another program's hook qdisc cannot take them.
//!
//! An `ingress` qdisc accepts filters for egress, but runs them for arriving packets
//! (`ingress_tcf_block`, net/sched/sch_ingress.c). Filters in a shared block apply to all its
//! devices.

use super::{hooks, pins};
use crate::Kernel;
use crate::error::KernelError;
use crate::namespace::within;
use crate::observe;
use crate::tc::decode::Entry;
use crate::tc::filters::{self, CLSACT_PARENTS, Change, Found, HookAttachment, TC_H_CLSACT};
use crate::tc::{TCA_EGRESS_BLOCK, TCA_INGRESS_BLOCK};
use std::os::fd::AsFd;
use std::path::Path;
use weirgate_bpf::{AttachPoint, BpfError, Store, TcxProgram, filter_name};
use weirgate_plan::Step;
use weirgate_state::{ClsactHook, HookPrograms};

/// Returns the hooks whose programs cannot be filters of this qdisc.
pub(crate) fn elsewhere(entry: &Entry<'_>) -> Vec<ClsactHook> {
    let shared = |kind| entry.attrs.u32(kind).is_some_and(|block| block != 0);
    let mut found = Vec::new();
    if shared(TCA_INGRESS_BLOCK) {
        found.push(ClsactHook::Ingress);
    }
    if entry.kind != "clsact" || shared(TCA_EGRESS_BLOCK) {
        found.push(ClsactHook::Egress);
    }
    found
}

impl Kernel {
    /// Returns weirgate's programs at the hooks of a device.
    pub(crate) async fn at_hooks(&self, index: u32) -> Result<(HookPrograms, Found), KernelError> {
        let (hooks, mut found) = filters::read(&self.hook_filters(index).await?);
        if Path::new(Store::TCX_FOLDER).exists() {
            let device = self.point(index).await?;
            // A process without permission only sees the filters.
            if let Some(store) = pins::readable("programs at hooks").await? {
                let mut own = store.tcx_programs();
                own.retain(|one| one.point == device);
                for one in own {
                    if let Some(filter) = store.tcx_filter(&one) {
                        found.add(one.hook, one.preference, filter);
                    }
                }
            }
        }
        Ok((hooks, found))
    }

    /// Returns the hooks of a device whose programs are attached by tcx.
    pub(crate) async fn by_tcx(&self, index: u32) -> Result<Vec<ClsactHook>, KernelError> {
        let listed = self.qdiscs().await?;
        let own = observe::entries(&listed, index);
        let qdisc = own.iter().find(|entry| entry.parent == TC_H_CLSACT);
        Ok(qdisc.map(elsewhere).unwrap_or_default())
    }

    /// Returns how programs are attached at the existing hooks of a device.
    pub(crate) async fn attachment(&self, index: u32) -> Result<HookAttachment, KernelError> {
        let [arriving, leaving] = CLSACT_PARENTS;
        let arrives = self.filters(index, arriving).await?;
        let leaves = self.filters(index, leaving).await?;
        Ok(HookAttachment {
            by_tcx: self.by_tcx(index).await?,
            arriving: filters::listed_parent(&arrives).unwrap_or(arriving),
            present: filters::read(&filters::by_hook(arrives, leaves)).1,
        })
    }

    /// Attaches or detaches those programs of a change that are at these hooks.
    pub(crate) async fn change_tcx(
        &self,
        step: &Step,
        index: u32,
        hooks: &[ClsactHook],
        programs: &[Change<'_>],
    ) -> Result<(), KernelError> {
        for (program, change) in programs {
            let row = program.row();
            for (at, filter) in row.filters.iter().enumerate() {
                if !hooks.contains(&filter.hook) {
                    continue;
                }
                let point = self.point(index).await?;
                let (hook, preference) = (filter.hook, row.preference);
                let loaded = change
                    .as_ref()
                    .and_then(|(wanted, files)| Some((wanted, files.get(at)?)));
                let store = pins::store().await;
                let store = store.map_err(|source| hooks::refused(*program, step, source))?;
                let put = || {
                    if let Some((wanted, file)) = loaded {
                        let one = TcxProgram {
                            point,
                            hook,
                            preference,
                            name: filter_name(*program, at, wanted),
                        };
                        return store.put_tcx(&one, file.as_fd());
                    }
                    let mut there = store.tcx_programs();
                    there.retain(|there| there.is_at(point, hook, preference));
                    there.iter().try_for_each(|one| store.remove_tcx(one))
                };
                let done = within(self.netns.as_ref(), put);
                let done = done.map_err(BpfError::Namespace).flatten();
                done.map_err(|source| hooks::refused(*program, step, source))?;
            }
        }
        Ok(())
    }

    /// Detaches tcx programs of this namespace whose hook qdisc can take filters now, and removes
    /// the pins of devices that are gone.
    pub(crate) async fn tidy_tcx(&self) -> Result<(), KernelError> {
        if !Path::new(Store::TCX_FOLDER).exists() {
            return Ok(());
        }
        let AttachPoint { netns, .. } = self.point(0).await?;
        let failed = |source| KernelError::Kit {
            object: "take programs off by tcx".to_owned(),
            source,
        };
        let there: Vec<(TcxProgram, bool)> = {
            let store = pins::store().await.map_err(failed)?;
            let all = store.tcx_programs().into_iter();
            let gone = |one: &TcxProgram| store.tcx_filter(one).is_none();
            all.map(|one| (one.clone(), gone(&one))).collect()
        };
        for (one, gone) in there {
            let of_others = one.point.netns != netns;
            if !gone && (of_others || self.by_tcx(one.point.ifindex).await?.contains(&one.hook)) {
                continue;
            }
            let store = pins::store().await.map_err(failed)?;
            store.remove_tcx(&one).map_err(failed)?;
        }
        Ok(())
    }
}
