/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where receive-window control (window.bpf.c) keeps its settings and what it
 * remembers. */
#ifndef INBOUND_WINDOW_STATE_H
#define INBOUND_WINDOW_STATE_H

#include "tc.h"
#include "window_layout.h"

#define CONNECTIONS 16384
#define HANDSHAKES 16384

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_totals);
} totals SEC(".maps");

/* By the tuple of what leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HANDSHAKES);
	__type(key, struct tuple);
	__type(value, struct window_receiver);
} handshakes SEC(".maps");

/* Those whose handshake is complete, by the same. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS);
	__type(key, struct tuple);
	__type(value, struct window_connection);
} connections SEC(".maps");

/* An end outside. */
struct window_peer {
	u8 address[16];
};

/* How long answers of ends outside took, handshakes' alone: what each has of the
 * line is not in it. */
#define WINDOW_PEERS 4096
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOW_PEERS);
	__type(key, struct window_peer);
	__type(value, u64);
} round_trips SEC(".maps");

/* Hosts inside, where they share. */
#define WINDOW_HOSTS 4096
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOW_HOSTS);
	__type(key, struct window_host_key);
	__type(value, struct window_host);
} hosts SEC(".maps");

/* What comes of a flow that no window holds (window/stream.h). */
struct window_stream {
	struct share_member member; /* of its host, or of its slot */
	struct window_receiver receiver;
	u64 bytes; /* that came */
	u64 epoch; /* the last second in which packets left that answer it */
	u32 answers; /* how many in that second */
	u32 before; /* and in the one before */
	u32 lock;
	u32 pad;
};

#define WINDOW_STREAMS 4096
/* By the tuple of what leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOW_STREAMS);
	__type(key, struct tuple);
	__type(value, struct window_stream);
} unheld SEC(".maps");

/* A new connection, too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_connection);
} blank SEC(".maps");

#endif
