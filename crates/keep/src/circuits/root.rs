// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The qdisc of circuits on a device: at its root, or at several of its queues below mq.

use super::{Circuits, CircuitsRefused, Target};
use crate::offloads::{offloads_back, offloads_off};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread::available_parallelism;
use weirgate_bpf::MOST_QUEUES;
use weirgate_circuits::kept::Kept;

/// A queue for each so much of the rate: a packet takes a processor a microsecond or two
/// (docs/measurements/engine.md), and one of full packets at this rate six.
const EACH: u64 = 2_000_000_000;

/// What a device has at its root.
pub(super) enum Root {
    /// The kernel's default.
    Default,
    /// The qdisc of circuits, at these queues; at the root itself it has the first.
    Own {
        /// The handle of mq, if that is the root.
        mq: Option<u32>,
        /// The queues.
        queues: Vec<u32>,
    },
    /// What somebody made, of this kind.
    Foreign(String),
}

impl Root {
    /// Whether all of so many queues have the qdisc.
    pub(super) fn is_whole(&self, count: u32) -> bool {
        match self {
            Self::Own { mq, queues } => {
                mq.is_some() == (count > 1) && (0..count).all(|queue| queues.contains(&queue))
            }
            _ => false,
        }
    }
}

/// Why a device has circuits at one queue, though more were requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneQueue {
    /// It has no more.
    HasOne,
    /// The kernel chooses among its queues by the processor (XPS).
    ByProcessor,
    /// The list has one site below the link, and a site has one queue.
    OneSite,
}

/// Queues that circuits are to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// How many.
    pub count: u32,
    /// Why there is but one.
    pub one: Option<OneQueue>,
}

impl Circuits<'_> {
    /// What the device has at its root. Where circuits have more than one queue, `count` of
    /// them, mq is theirs, whatever is below it: a process that was ended may have left it so.
    pub(super) async fn root(
        &self,
        target: &Target<'_>,
        kind: &str,
        count: u32,
    ) -> Result<Root, CircuitsRefused> {
        let Some(root) = self.kernel.root_kind(target.index).await? else {
            return Ok(Root::Default);
        };
        if root == kind {
            return Ok(Root::Own {
                mq: None,
                queues: vec![0],
            });
        }
        if let Some((handle, kinds)) = self.kernel.queue_kinds(target.index).await? {
            let own = kinds.into_iter().filter(|(_, other)| *other == kind);
            let queues: Vec<u32> = own.map(|(queue, _)| queue).collect();
            if count > 1 || !queues.is_empty() {
                return Ok(Root::Own {
                    mq: Some(handle),
                    queues,
                });
            }
        }
        Ok(Root::Foreign(root))
    }

    /// How many queues a list gets on a device: as many as were asked for, or as the rate
    /// needs and there are processors; and no more than there are, or sites for them.
    pub(super) fn queues(&self, target: &Target<'_>, kept: &Kept) -> Queues {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let wanted = kept.queues.unwrap_or_else(|| {
            let parts = kept
                .link
                .map_or(u64::MAX, |rate| rate.as_bits_per_second().div_ceil(EACH));
            parts.clamp(1, processors as u64) as u32
        });
        let wanted = wanted.clamp(1, MOST_QUEUES);
        let found = self.kernel.sending_queues(target.name, target.index);
        let parts = kept.list.below_link().min(MOST_QUEUES as usize) as u32;
        let one = match (found.count, found.by_processor) {
            _ if wanted == 1 => None,
            (1, _) => Some(OneQueue::HasOne),
            (_, true) => Some(OneQueue::ByProcessor),
            _ if parts <= 1 => Some(OneQueue::OneSite),
            _ => None,
        };
        Queues {
            count: if one.is_some() {
                1
            } else {
                wanted.min(found.count).min(parts)
            },
            one,
        }
    }

    /// Puts the qdisc at so many queues, where it is not, and reads them back; undone where
    /// that fails. Whether offloads were switched.
    pub(super) async fn put(
        &self,
        target: &Target<'_>,
        kind: &str,
        count: u32,
    ) -> Result<bool, CircuitsRefused> {
        let (kernel, name, device) = (self.kernel, target.name, target.index);
        // One packet of the device is to be one on the wire.
        let switched = offloads_off(kernel, name, target.point).await?;
        let put = self.put_at(target, kind, count).await;
        let found = match put {
            Ok(()) => self.root(target, kind, count).await,
            Err(error) => Err(error),
        };
        let refused = match found {
            Ok(found) if found.is_whole(count) => return Ok(switched),
            Ok(Root::Foreign(kind)) => CircuitsRefused::Foreign {
                device: name.clone(),
                kind,
            },
            Ok(_) => CircuitsRefused::Foreign {
                device: name.clone(),
                kind: "the kernel's default".to_owned(),
            },
            Err(error) => error,
        };
        if let Root::Own { .. } = self.root(target, kind, count).await? {
            kernel.drop_root(name, device).await?;
        }
        if switched {
            offloads_back(kernel, name, target.point).await?;
        }
        Err(refused)
    }

    async fn put_at(
        &self,
        target: &Target<'_>,
        kind: &str,
        count: u32,
    ) -> Result<(), CircuitsRefused> {
        let (kernel, name, device) = (self.kernel, target.name, target.index);
        if count == 1 {
            return Ok(kernel.put_root(name, device, kind).await?);
        }
        let (mq, has) = match kernel.queue_kinds(device).await? {
            Some((mq, kinds)) => (mq, kinds),
            None => (kernel.put_mq(name, device).await?, BTreeMap::new()),
        };
        for queue in 0..count {
            if has.get(&queue).is_none_or(|other| other != kind) {
                kernel.put_queue(name, device, (mq, queue), kind).await?;
            }
        }
        Ok(())
    }
}
