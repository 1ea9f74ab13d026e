package scaleway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/internal/cloud"
)

// classify turns an error of the SDK into one of package cloud. The SDK has a
// type for most errors, without the status; others keep only the status; and
// for some it loses even that, then what the transport saw decides.
func classify(doing string, seen *exchange, err error) *cloud.Error {
	var ours *cloud.Error
	if errors.As(err, &ours) && ours != nil {
		return &cloud.Error{Kind: ours.Kind, Doing: doing, Message: ours.Message, RequestID: seen.requestID, Err: ours.Err}
	}
	kind, message := byType(err)
	if kind == "" {
		kind, message = byResponse(seen, err)
	}
	if kind == "" {
		kind, message = byExchange(seen, err)
	}
	return &cloud.Error{Kind: kind, Doing: doing, Message: message, RequestID: seen.requestID, Err: err}
}

// byType matches the SDK's typed errors. The targets are pointers: three of the
// types have value receivers, and a value target compiles but never matches.
func byType(err error) (cloud.Kind, string) {
	var (
		precondition *scw.PreconditionFailedError
		transient    *scw.TransientStateError
		notFound     *scw.ResourceNotFoundError
		expired      *scw.ResourceExpiredError
		denied       *scw.PermissionsDeniedError
		unauthorized *scw.DeniedAuthenticationError
		outOfStock   *scw.OutOfStockError
		quota        *scw.QuotasExceededError
		locked       *scw.ResourceLockedError
		invalid      *scw.InvalidArgumentsError
	)
	switch {
	case errors.As(err, &precondition) && precondition != nil:
		return cloud.KindFloor, oneLine(precondition.HelpMessage, "precondition is not respected")
	case errors.As(err, &transient) && transient != nil:
		return cloud.KindTransient, "server is in the transient state " + oneLine(transient.CurrentState, "unknown")
	case errors.As(err, &notFound):
		return cloud.KindNotFound, "not found"
	case errors.As(err, &expired):
		return cloud.KindNotFound, "no longer exists"
	case errors.As(err, &denied):
		return cloud.KindForbidden, "insufficient permissions, or no longer there"
	case errors.As(err, &unauthorized):
		return cloud.KindUnauthorized, "the API key is not accepted"
	case errors.As(err, &outOfStock):
		return cloud.KindOutOfStock, "out of stock"
	case errors.As(err, &quota):
		return cloud.KindQuota, "quota exceeded"
	case errors.As(err, &locked):
		return cloud.KindLocked, "locked by the vendor"
	case errors.As(err, &invalid) && invalid != nil:
		return invalidKind(invalid), invalidText(invalid)
	}
	return "", ""
}

// byResponse matches what has a status but no type of its own: another error
// type, or a proxy's page.
func byResponse(seen *exchange, err error) (cloud.Kind, string) {
	var response *scw.ResponseError
	if !errors.As(err, &response) || response == nil {
		return "", ""
	}
	kind := kindOfStatus(response.StatusCode)
	if kind == cloud.KindNotFound && !seen.json {
		// A proxy's page: it knows nothing of the vendor's servers.
		kind = cloud.KindUnavailable
	}
	return kind, oneLine(response.Message, response.Status)
}

func byExchange(seen *exchange, err error) (cloud.Kind, string) {
	switch {
	case seen.status == 0:
		return cloud.KindUnavailable, networkText(err)
	case seen.status < http.StatusBadRequest:
		return cloud.KindUnavailable, "the vendor's answer cannot be read"
	}
	return kindOfStatus(seen.status), fmt.Sprintf("http status %d", seen.status)
}

func kindOfStatus(status int) cloud.Kind {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return cloud.KindNotFound
	case http.StatusForbidden:
		return cloud.KindForbidden
	case http.StatusUnauthorized:
		return cloud.KindUnauthorized
	case http.StatusConflict:
		return cloud.KindTransient
	case http.StatusPreconditionFailed:
		return cloud.KindFloor
	case http.StatusLocked:
		return cloud.KindLocked
	case http.StatusTooManyRequests:
		return cloud.KindThrottled
	}
	if status < http.StatusBadRequest || status >= http.StatusInternalServerError || status == http.StatusRequestTimeout {
		return cloud.KindUnavailable
	}
	return cloud.KindInvalid
}

func invalidKind(e *scw.InvalidArgumentsError) cloud.Kind {
	for _, detail := range e.Details {
		if detail.ArgumentName == "zone" {
			return cloud.KindUnknownZone
		}
	}
	return cloud.KindInvalid
}

func invalidText(e *scw.InvalidArgumentsError) string {
	for _, detail := range e.Details {
		return oneLine(detail.ArgumentName+": "+cmp.Or(detail.HelpMessage, detail.Reason), "invalid argument")
	}
	return "invalid argument"
}

// networkText leaves out the URL, which says nothing new.
func networkText(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within the call's deadline"
	}
	var u *url.Error
	if errors.As(err, &u) {
		return oneLine(u.Err.Error(), "no connection")
	}
	return oneLine(err.Error(), "no connection")
}

// longestMessage keeps a proxy's page out of logs and events.
const longestMessage = 200

func oneLine(text, otherwise string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return cmp.Or(text, otherwise)
}
