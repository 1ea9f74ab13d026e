package server

import (
	"context"
	"fmt"
	"time"
)

const (
	// reviewTimeout bounds one question to the API server, and the wait for its place.
	reviewTimeout = 10 * time.Second
	// mostReviews are asked at once, so that strangers take a part of the agent's own
	// requests only.
	mostReviews = 8
)

// reviews bounds what is asked of the API server on behalf of others.
type reviews chan struct{}

func newReviews() reviews { return make(reviews, mostReviews) }

// do asks one question.
func (r reviews) do(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case r <- struct{}{}:
		defer func() { <-r }()
		return ask(ctx)
	case <-ctx.Done():
		return fmt.Errorf("waiting for other reviews: %w", context.Cause(ctx))
	}
}
