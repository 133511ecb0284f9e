package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-github/v60/github"
)

// Cancel ends a run; force does not wait for jobs that take their time. It reports false
// for a run that was over already.
func (c *Client) Cancel(ctx context.Context, run int64, force bool) (bool, error) {
	how := "cancel"
	if force {
		how = "force-cancel"
	}
	req, err := c.gh.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/actions/runs/%d/%s", c.owner, c.name, run, how), nil)
	if err != nil {
		return false, err
	}
	_, err = c.gh.Do(ctx, req, nil)
	_, accepted := errors.AsType[*github.AcceptedError](err)
	switch {
	case err == nil || accepted:
		return true, nil
	case statusOf(err) == http.StatusConflict:
		return false, nil
	default:
		return false, c.failed(ctx, fmt.Sprintf("cancel run %d", run), err)
	}
}
