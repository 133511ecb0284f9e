// Package fdpass passes an open file to other processes of this host and user. It works for any
// file descriptor, such as one of a driver's memory, which has no path to open.
package fdpass

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Offer is a file that other processes can take, as often as they like, until Close or until the
// system accepts no more connections.
type Offer struct {
	file     *os.File
	listener *net.UnixListener
	ended    chan struct{}
	failed   error // of serve, once it has ended
}

// NewOffer offers a file, which it then owns. The address is of Linux's abstract kind: it leaves
// nothing in the file system, and ends with the process.
func NewOffer(f *os.File) (*Offer, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@cx-" + rand.Text()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("offer a file to other processes: %w", err), f.Close())
	}
	o := &Offer{file: f, listener: l, ended: make(chan struct{})}
	go o.serve()
	return o, nil
}

// Address is what Take needs.
func (o *Offer) Address() string { return o.listener.Addr().String() }

// Close withdraws the offer. Processes that have taken the file keep it. If the offer had already
// ended, the error says why.
func (o *Offer) Close() error {
	err := o.listener.Close()
	<-o.ended
	if o.failed != nil { // serve has closed the listener
		err = o.failed
	}
	return errors.Join(err, o.file.Close())
}

// serve gives the file to processes until the listener is closed. It closes the listener itself if a
// connection cannot be accepted, since the next attempt would fail at once, too. Processes that
// take the file then get an error instead of waiting.
func (o *Offer) serve() {
	defer close(o.ended)
	for {
		conn, err := o.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			o.failed = errors.Join(fmt.Errorf("offer a file to other processes: %w: raise the limit of open files (ulimit -n) or free memory", err), o.listener.Close())
			return
		}
		if sameUser(conn) == nil {
			// If this fails, Take gets a closed connection without a file.
			_, _, _ = conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(o.file.Fd())), nil)
		}
		conn.Close()
	}
}

// Take returns the file that another process of this user offers at an address. A process that does
// not answer is waited for until ctx ends.
func Take(ctx context.Context, address string) (*os.File, error) {
	f, err := take(ctx, address)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("take a file from another process: %w", err)
	}
	return f, nil
}

func take(ctx context.Context, address string) (*os.File, error) {
	var d net.Dialer
	dialled, err := d.DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	defer dialled.Close()
	defer context.AfterFunc(ctx, func() { _ = dialled.SetDeadline(time.Unix(1, 0)) })()
	conn := dialled.(*net.UnixConn)
	if err := sameUser(conn); err != nil {
		return nil, err
	}
	const one = 4 // bytes of a descriptor
	rights := make([]byte, unix.CmsgSpace(one))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("it closed the connection without sending the file")
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(descriptors[0]), "file of another process"), nil
}

// sameUser returns an error unless the other end of a connection is a process of this user: every
// process of the host can reach an abstract address.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if own := os.Geteuid(); int(peer.Uid) != own {
		return fmt.Errorf("it belongs to user %d, not %d", peer.Uid, own)
	}
	return nil
}
