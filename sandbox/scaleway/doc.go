// Package scaleway is a simulated Scaleway: the part of its HTTP API that deals
// with Apple silicon servers, their diagnostics, their prices and IAM SSH keys, close
// enough to the real one that the official SDK cannot tell them apart.
//
// A [Vendor] holds the state in memory and answers as an [net/http.Handler];
// [Listen] puts it on a loopback address. Delivery, reboot, reinstall and the
// billing floors follow an injected clock, divided by a time scale. What happens
// to a Mac behind a server is not this package's business: it tells a [Hardware],
// which the program that composes a sandbox plugs in, and which does nothing by
// default.
//
// The shapes and times come from recorded traffic of the real API; test/recorded
// replays it. Where a comment says INF, nobody has recorded the case and the
// answer here is the most plausible one. Anything not served answers 501 and is
// named: a call, a query parameter, a field of a body at any depth. So a gap cannot
// be taken for the vendor's behaviour. Runners, private networks and batches are
// such gaps; their lists are served, and are empty.
//
// Under /sandbox the same listener has a small control API without the vendor's
// authentication, for loopback callers only: the journal of requests, the servers,
// the armed [Fault]s, the [Knobs], and what a person would do in the console.
//
// A test under a virtual clock calls the vendor in its own process, without
// sockets or goroutines: see [Vendor.RoundTripper] and [Options.Inline].
package scaleway
