// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A qdisc of the kit at a device's root: its marks, and its removal.

use crate::whole::aqm::own;
use crate::whole::aqm::target::{Target, refused};
use weirgate_aqm::{ONLY_MARKS, Settings};
use weirgate_bpf::{AttachPoint, BpfError, Marks, Qdisc, Shaper, Store};
use weirgate_console::discipline::{failed, known};
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::output;

/// The qdisc on a device.
pub enum Loaded {
    One(Qdisc),
    Shaper(Shaper),
}

impl Loaded {
    /// Returns the qdisc at the root of a device, if it is the kit's.
    pub async fn on(target: &Target, store: &Store) -> Result<Option<Self>, Failure> {
        let kind = target.kernel.root_kind(target.device).await;
        let Some(kind) = kind.map_err(refused)? else {
            return Ok(None);
        };
        if Shaper::is_kind(&kind) {
            return Ok(store.shaper(&kind).map_err(failed)?.map(Self::Shaper));
        }
        let name = kind.strip_prefix("weir_").and_then(known);
        let Some(discipline) = name else {
            return Ok(None);
        };
        Ok(store.qdisc(discipline).map_err(failed)?.map(Self::One))
    }

    pub async fn required(target: &Target, store: &Store) -> Result<Self, Failure> {
        Self::on(target, store).await?.ok_or_else(|| {
            wrong(format!(
                "{}: no discipline of the kit is loaded there; `weirgate aqm show` lists those \
                 that are",
                target.name
            ))
        })
    }

    pub fn kind(&self) -> &str {
        match self {
            Self::One(qdisc) => qdisc.kind(),
            Self::Shaper(shaper) => shaper.kind(),
        }
    }

    pub fn forget(&self, store: &Store, point: AttachPoint) -> Result<(), BpfError> {
        self.unmark(store, point)?;
        match self {
            Self::One(qdisc) => qdisc.unset(point),
            Self::Shaper(shaper) => shaper.unset(point),
        }
    }

    /// Enables or disables marking. If marking is not possible, the qdisc drops the packets that it
    /// would mark; this is reported.
    pub fn mark(&self, store: &Store, point: AttachPoint, marks: Marking) -> Result<(), Failure> {
        if marks == Marking::Never {
            return self.unmark(store, point).map_err(failed);
        }
        let there = match self {
            Self::One(qdisc) => store.marks(qdisc, point),
            Self::Shaper(shaper) => store.marks(shaper, point),
        };
        if there.map_err(failed)? {
            return Ok(());
        }
        let marked = match self {
            Self::One(qdisc) => store.mark(qdisc, point),
            Self::Shaper(shaper) => store.mark(shaper, point),
        };
        match marked {
            Err(error) if marks == Marking::Only => Err(wrong(format!("{ONLY_MARKS}: {error}"))),
            Err(error) => {
                output::note(&format!(
                    "packets are dropped where they would be marked (ECN): {error}"
                ));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn unmark(&self, store: &Store, point: AttachPoint) -> Result<(), BpfError> {
        match self {
            Self::One(qdisc) => store.unmark(qdisc, point),
            Self::Shaper(shaper) => store.unmark(shaper, point),
        }
    }

    /// Returns the counters of its marks.
    pub fn marks(&self) -> &Marks {
        match self {
            Self::One(qdisc) => qdisc.marks(),
            Self::Shaper(shaper) => shaper.marks(),
        }
    }

    /// Removes the qdisc's kind from the kernel if no device uses it or is about to.
    pub fn release(self, store: &Store) -> Result<(), Failure> {
        match self {
            Self::One(qdisc) => {
                if !qdisc.is_used().map_err(failed)? {
                    store.remove_qdisc(qdisc.discipline()).map_err(failed)?;
                    own::release(store, qdisc.discipline())?;
                }
            }
            Self::Shaper(shaper) => {
                if !shaper.is_used().map_err(failed)? {
                    store.remove_shaper(&shaper).map_err(failed)?;
                }
            }
        }
        Ok(())
    }
}

/// How settings use marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Marking {
    Never,
    Also,
    /// Packets are only marked, never dropped instead: what cannot be marked passes.
    Only,
}

impl Marking {
    pub fn of<'s>(all: impl IntoIterator<Item = &'s Settings>) -> Self {
        let one = |settings: &Settings| match (settings.marks(), settings.only_marks()) {
            (false, _) => Self::Never,
            (true, false) => Self::Also,
            (true, true) => Self::Only,
        };
        all.into_iter().map(one).max().unwrap_or(Self::Never)
    }
}
