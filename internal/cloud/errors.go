package cloud

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is the class of a vendor error: what decides the next act, never the text.
type Kind string

// The kinds of vendor errors.
const (
	// KindNotFound: the server, image or key does not exist.
	KindNotFound Kind = "not_found"
	// KindForbidden: no permission, or the server is gone; the vendor answers both alike.
	KindForbidden Kind = "forbidden"
	// KindUnauthorized: the credentials are not accepted at all.
	KindUnauthorized Kind = "unauthorized"
	// KindTransient: the server is busy with something; ask again later.
	KindTransient Kind = "transient_state"
	// KindFloor: a precondition refuses the act, for a deletion the billing floor.
	KindFloor Kind = "precondition_failed"
	// KindOutOfStock: the vendor has no such server to give.
	KindOutOfStock Kind = "out_of_stock"
	// KindQuota: the project may not have more of these.
	KindQuota Kind = "quota_exceeded"
	// KindThrottled: too many requests.
	KindThrottled Kind = "throttled"
	// KindUnavailable: the vendor or the way to it failed, or the answer makes no
	// sense; the act may still have happened.
	KindUnavailable Kind = "unavailable"
	// KindLocked: the vendor holds the server locked.
	KindLocked Kind = "locked"
	// KindUnknownZone: the zone does not exist for this product.
	KindUnknownZone Kind = "unknown_zone"
	// KindInvalid: the request makes no sense, and had no effect.
	KindInvalid Kind = "invalid"
)

// Error is a failed vendor call. Its text says what was being done, the vendor's
// short message and the request's id; it never holds a secret.
type Error struct {
	Kind Kind
	// Doing is the act that failed, e.g. "reinstall server fr-par-1/…".
	Doing string
	// Message is the vendor's short message.
	Message string
	// RequestID is the vendor's name for the request, when it gave one.
	RequestID string
	// Key tells the credentials of the call from others, and never what they are.
	Key string
	// Err is the cause, if there is one beyond the message. Its text is not shown.
	Err error
}

// Error renders the act, the message and the request's id in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Doing)
	b.WriteString(": ")
	if e.Message != "" {
		b.WriteString(e.Message)
	} else {
		b.WriteString(string(e.Kind))
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Said is what a failed call was to do and the vendor's words, without the id of its
// request: the same failure again is the same text.
func Said(err error) string {
	var e *Error
	if !errors.As(err, &e) || e == nil {
		return err.Error()
	}
	same := *e
	same.RequestID = ""
	return same.Error()
}

// KeyOf tells the credentials of a failed call from others; empty: nobody knows them.
func KeyOf(err error) string {
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e.Key
	}
	return ""
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of a vendor error, or "" for nil and foreign errors.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e.Kind
	}
	return ""
}

// IsNotFound reports that the vendor knows no such thing.
func IsNotFound(err error) bool { return KindOf(err) == KindNotFound }

// IsForbidden reports a lack of permission. A deleted server looks the same, so
// this alone never proves that a server is gone.
func IsForbidden(err error) bool { return KindOf(err) == KindForbidden }

// IsUnauthorized reports credentials that are not accepted.
func IsUnauthorized(err error) bool { return KindOf(err) == KindUnauthorized }

// IsTransient reports that the server is busy with an earlier act.
func IsTransient(err error) bool { return KindOf(err) == KindTransient }

// IsFloor reports a failed precondition: for a deletion, the billing floor.
func IsFloor(err error) bool { return KindOf(err) == KindFloor }

// IsThrottled reports that the vendor asks for fewer requests.
func IsThrottled(err error) bool { return KindOf(err) == KindThrottled }

// IsUnavailable reports a failure of the vendor or of the network. A write that
// failed so may still have had its effect.
func IsUnavailable(err error) bool { return KindOf(err) == KindUnavailable }

// IsLocked reports that the vendor holds the server locked.
func IsLocked(err error) bool { return KindOf(err) == KindLocked }

// IsUnknownZone reports a zone that the vendor does not have.
func IsUnknownZone(err error) bool { return KindOf(err) == KindUnknownZone }

// IsInvalid reports a request that makes no sense.
func IsInvalid(err error) bool { return KindOf(err) == KindInvalid }
