/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of receive-window control (window.bpf.c). */
#ifndef INBOUND_WINDOW_STATE_H
#define INBOUND_WINDOW_STATE_H

#include "tc.h"
#include "window/layout.h"

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

/* Incomplete handshakes, by the tuple of departing packets. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HANDSHAKES);
	__type(key, struct tuple);
	__type(value, struct window_receiver);
} handshakes SEC(".maps");

/* Connections with a complete handshake, by the same tuple. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS);
	__type(key, struct tuple);
	__type(value, struct window_connection);
} connections SEC(".maps");

/* A peer outside. */
struct window_peer {
	u8 address[16];
};

/* Round trips to peers, from handshakes only: they do not include the queue of
 * the connection itself. */
#define WINDOW_PEERS 4096
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOW_PEERS);
	__type(key, struct window_peer);
	__type(value, u64);
} round_trips SEC(".maps");

/* Hosts inside, if they share a rate. */
#define WINDOW_HOSTS 4096
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOW_HOSTS);
	__type(key, struct window_host_key);
	__type(value, struct window_host);
} hosts SEC(".maps");

/* A flow without window control (window/stream.h). */
struct window_stream {
	struct share_member member; /* membership in its host or slot */
	struct window_receiver receiver;
	u64 bytes; /* bytes received */
	u64 epoch; /* the last second in which answering packets left */
	u32 answers; /* packets in that second */
	u32 before; /* packets in the previous second */
	u32 lock;
	u32 pad;
};

#define WINDOW_STREAMS 4096
/* By the tuple of departing packets. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WINDOW_STREAMS);
	__type(key, struct tuple);
	__type(value, struct window_stream);
} unheld SEC(".maps");

/* A blank connection, which is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_connection);
} blank SEC(".maps");

#endif
