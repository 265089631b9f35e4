// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines on virtual queues of arriving packets, which outlive this process. Each has a
//! folder of pins, named after its attach point and discipline.

use crate::error::BpfError;
use crate::hooks::virtual_queue::{Filter, FilterMaps, FilterSetup};
use crate::programs::tcx::{self, Attached, End};
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::load::remove;
use crate::qdisc::store::Store;
use libbpf_rs::MapHandle;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use weirgate_aqm::Discipline;

/// The folder with one folder for each attachment; it is not the name of a qdisc kind.
const FOLDER: &str = "ingress";

/// The pin of the link, made last.
const LINK: &str = "link";

/// A discipline for the arriving packets of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressAttachment {
    /// The device.
    pub point: AttachPoint,
    /// The name of the discipline.
    pub discipline: String,
}

impl Store {
    /// Returns all pinned attachments, including those of devices that no longer exist.
    pub fn ingresses(&self) -> Vec<IngressAttachment> {
        let folder = self.folder().join(FOLDER);
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| parsed(&name)).collect()
    }

    /// Returns the attachment of a device, if it exists and is not detached.
    pub fn ingress_at(&self, point: AttachPoint) -> Option<IngressAttachment> {
        let mut all = self.ingresses().into_iter();
        all.find(|one| one.point == point && tcx::is_on(&self.of(one).join(LINK), point.ifindex))
    }

    /// Opens the maps of an attachment.
    pub fn ingress_maps(
        &self,
        one: &IngressAttachment,
        discipline: Discipline,
    ) -> Result<FilterMaps, BpfError> {
        let folder = self.of(one);
        FilterMaps::of(discipline, |name: &str| {
            MapHandle::from_pinned_path(folder.join(name)).ok()
        })
    }

    /// Loads a discipline and attaches it to a device in the network namespace of this thread,
    /// replacing an earlier one. `seed` is that of [`Filter::load`].
    pub fn put_ingress(
        &self,
        point: AttachPoint,
        setup: &FilterSetup,
        seed: u32,
    ) -> Result<(), BpfError> {
        let filter = Filter::load(setup, seed)?;
        for before in self.ingresses() {
            if before.point == point {
                self.remove_ingress(&before)?;
            }
        }
        let one = IngressAttachment {
            point,
            discipline: setup.settings.discipline().name().to_owned(),
        };
        let folder = self.of(&one);
        fs::create_dir_all(&folder).map_err(|source| BpfError::File {
            path: folder.clone(),
            doing: "made",
            source,
        })?;
        pinned(&filter, point, &folder).inspect_err(|_| {
            // Report the first error only.
            let _ = self.remove_ingress(&one);
        })
    }

    /// Removes the pins of attachments that were detached or whose device no longer exists. A
    /// folder without a link is kept, because another process may be about to complete it.
    pub fn tidy_ingresses(&self) -> Result<Vec<IngressAttachment>, BpfError> {
        let mut all = self.ingresses();
        all.retain(|one| {
            let link = self.of(one).join(LINK);
            link.exists() && !tcx::is_on(&link, one.point.ifindex)
        });
        for one in &all {
            self.remove_ingress(one)?;
        }
        Ok(all)
    }

    /// Detaches a discipline from its device.
    pub fn remove_ingress(&self, one: &IngressAttachment) -> Result<(), BpfError> {
        let folder = self.of(one);
        for name in [LINK].iter().chain(&FilterMaps::NAMES) {
            remove(&folder.join(name), |path| fs::remove_file(path))?;
        }
        remove(&folder, |path| fs::remove_dir(path))
    }

    fn of(&self, one: &IngressAttachment) -> PathBuf {
        let AttachPoint { netns, ifindex, .. } = one.point;
        let name = format!("{netns}-{ifindex}-{}", one.discipline);
        self.folder().join(FOLDER).join(name)
    }
}

fn pinned(filter: &Filter, point: AttachPoint, folder: &Path) -> Result<(), BpfError> {
    let mut maps = filter.maps()?;
    for (name, map) in maps.named() {
        let path = folder.join(name);
        map.pin(&path).map_err(|source| BpfError::Pin {
            path,
            doing: "made",
            source,
        })?;
    }
    let program = filter.program()?;
    let attached = Attached::to(program.as_fd(), point.ifindex, End::Ingress);
    let attached = attached.map_err(|source| BpfError::Program {
        name: "ingress",
        doing: "put on the device (tcx, Linux 6.6)",
        source,
    })?;
    attached.pin(&folder.join(LINK))
}

/// Parses the name of a folder.
fn parsed(name: &str) -> Option<IngressAttachment> {
    let mut words = name.splitn(3, '-');
    Some(IngressAttachment {
        point: AttachPoint {
            netns: words.next()?.parse().ok()?,
            ifindex: words.next()?.parse().ok()?,
            queue: 0,
        },
        discipline: words.next()?.to_owned(),
    })
}
