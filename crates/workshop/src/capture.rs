// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm record --capture`: converts a capture to a recording.

use crate::frames::each;
use crate::replay::unreadable;
use anyhow::Context;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use weirgate_aqm::{About, Record, Writer};
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;

/// Implements `weirgate aqm record --capture`.
pub fn record(capture: &Path, path: &Path) -> Outcome {
    let file = File::open(capture).map_err(|error| unreadable(capture, &error))?;
    // Write to a temporary file first, so that a broken capture leaves no file.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let whole = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| path.display().to_string())?;
    let mut out = BufWriter::new(whole);
    let mut writer = Writer::default();
    out.write_all(&writer.begin(&About {
        device: capture.display().to_string(),
        ..About::default()
    }))?;
    let mut count = 0_u32;
    let mut written = Ok(());
    let read = each(BufReader::new(file), |packet| {
        let record = Record::of_packet(packet, 0, count);
        written = out.write_all(&writer.record(&record.to_bytes()));
        count = count.wrapping_add(1);
        written.is_ok()
    });
    written?;
    read.map_err(|error| unreadable(capture, &error))?;
    out.write_all(&writer.end())?;
    let whole = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    whole
        .persist(path)
        .with_context(|| path.display().to_string())?;
    output::data(&format!("{}: {count} packets", path.display()))?;
    Ok(Status::Done)
}
