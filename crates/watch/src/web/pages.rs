// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page's files, which are part of the program.

/// A path, its type and its content.
pub(crate) static FILES: [(&str, &str, &str); 6] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../../../../web/index.html"),
    ),
    (
        "/watch.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../../web/watch.js"),
    ),
    (
        "/figures.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../../web/figures.js"),
    ),
    (
        "/series.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../../web/series.js"),
    ),
    (
        "/tables.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../../web/tables.js"),
    ),
    (
        "/watch.css",
        "text/css; charset=utf-8",
        include_str!("../../../../web/watch.css"),
    ),
];
