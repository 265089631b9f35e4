// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers objects that were compiled elsewhere, such as the kernel's own BPF qdiscs.

use crate::programs::verifier::{Refused, read};
use crate::programs::{Object, log};
use libbpf_rs::{Link, MapCore, MapType, ObjectBuilder};

/// Registered operations. They stay in the kernel until this is dropped and nothing uses them.
#[derive(Debug)]
pub struct Registered {
    /// One link for each set of operations. The links must be dropped before the object, because
    /// operations without a kernel link are unregistered through the object's map.
    _links: Vec<Link>,
    _object: libbpf_rs::Object,
}

/// Loads a compiled object and registers each of its sets of operations (`struct_ops`). Needs
/// root.
///
/// # Errors
///
/// Returns [`Refused`] if the kernel rejects a program or the operations.
pub fn register(object: &[u8]) -> Result<Registered, Refused> {
    let aligned = Object::from(object);
    let (registered, log) = log::recorded(|| {
        let mut object = ObjectBuilder::default()
            .name("register")?
            .open_memory(&aligned)?
            .load()?;
        let operations = object
            .maps_mut()
            .filter(|map| map.map_type() == MapType::StructOps);
        let links: libbpf_rs::Result<Vec<Link>> =
            operations.map(|mut map| map.attach_struct_ops()).collect();
        Ok(Registered {
            _links: links?,
            _object: object,
        })
    });
    registered.map_err(|error: libbpf_rs::Error| read(&error.to_string(), log))
}
