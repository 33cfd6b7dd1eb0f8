// Copyright: kubegpu.tenancy contributors
// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Command csi-double is a double of a CSI driver with snapshots, for tests: folders of the node that it runs on stand for volumes and snapshots.
// It registers itself with kubelet, and needs the program cp. It records how large a volume is to be, and lets it grow.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const volumes, snapshots = "volumes", "snapshots"

// record is kept beside the files of a volume or snapshot.
type record struct {
	Bytes  int64     // size of the volume, or of the one that a snapshot is of
	Source string    // snapshot that a volume was made from, or volume that a snapshot is of
	Made   time.Time // when it was begun
}

type double struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	driver, node, folder, socket string
	alone                        sync.Mutex // held while folders are made
}

func main() {
	driver, node := flag.String("driver", "", "its name"), flag.String("node", "", "its name")
	folder, kubelet := flag.String("folder", "", "of volumes and snapshots"), flag.String("kubelet", "/var/lib/kubelet", "its folder")
	flag.Parse()
	d := &double{driver: *driver, node: *node, folder: *folder, socket: filepath.Join(*kubelet, "plugins", *driver, "csi.sock")}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	// Kubelet finds the second socket, and asks there for the first.
	for _, path := range []string{d.socket, filepath.Join(*kubelet, "plugins_registry", *driver+"-reg.sock")} {
		must(os.MkdirAll(filepath.Dir(path), 0o750))
		must(os.RemoveAll(path))
		listener, err := net.Listen("unix", path)
		must(err)
		go func() { must(server.Serve(listener)) }()
	}
	ended, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	<-ended.Done()
	server.Stop()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func logged(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, req)
	log.Printf("%s {%v}: %v", info.FullMethod, req, err)
	return answer, err
}

// What it is

func (d *double) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.driver, Endpoint: d.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *double) NotifyRegistrationStatus(_ context.Context, told *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !told.GetPluginRegistered() {
		log.Fatalf("not registered: %s", told.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *double) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.driver, VendorVersion: "0"}, nil
}

func (d *double) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *double) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	can := func(what csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: what}}}
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		can(csi.PluginCapability_Service_CONTROLLER_SERVICE), can(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
	}}, nil
}

func (d *double) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	can := func(what csi.ControllerServiceCapability_RPC_Type) *csi.ControllerServiceCapability {
		return &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: what}}}
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{
		can(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME), can(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),
	}}, nil
}

func (d *double) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (d *double) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: d.here()}, nil
}

func (d *double) here() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{"topology." + d.driver + "/node": d.node}}
}

// Volumes and snapshots. The ID of a snapshot begins with its node's name.

func (d *double) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	source, bytes := req.GetVolumeContentSource(), req.GetCapacityRange().GetRequiredBytes()
	snapshot := source.GetSnapshot().GetSnapshotId()
	if !mountable(req.GetVolumeCapabilities()...) || source != nil && snapshot == "" {
		return nil, status.Error(codes.InvalidArgument, "a volume can only be mounted, and is empty or from a snapshot")
	}
	node, name, _ := strings.Cut(snapshot, "/")
	if snapshot != "" && node != d.node {
		return nil, status.Errorf(codes.ResourceExhausted, "snapshot %s is on node %s", name, node)
	}
	taken, missing := d.kept(snapshots, name)
	asked := record{max(bytes, taken.Bytes), snapshot, time.Now()}
	kept, err := d.ensure(volumes, req.GetName(), asked, func(to string) error {
		if snapshot == "" {
			return errors.Join(os.Mkdir(to, 0o777), os.Chmod(to, 0o777))
		}
		if missing != nil {
			return missing
		}
		return duplicate(d.path(snapshots, name, "files"), to)
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: req.GetName(), CapacityBytes: kept.Bytes, ContentSource: source, AccessibleTopology: []*csi.Topology{d.here()},
	}}, nil
}

func (d *double) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, d.remove(volumes, req.GetVolumeId())
}

func (d *double) CreateSnapshot(_ context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	name, volume := req.GetName(), req.GetSourceVolumeId()
	of, missing := d.kept(volumes, volume)
	kept, err := d.ensure(snapshots, name, record{of.Bytes, volume, time.Now()}, func(to string) error {
		if missing != nil {
			return missing
		}
		return duplicate(d.path(volumes, volume, "files"), to)
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId: d.node + "/" + name, SourceVolumeId: volume, SizeBytes: kept.Bytes, CreationTime: timestamppb.New(kept.Made), ReadyToUse: true,
	}}, nil
}

func (d *double) DeleteSnapshot(_ context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	node, name, _ := strings.Cut(req.GetSnapshotId(), "/")
	if node != d.node {
		return nil, status.Errorf(codes.FailedPrecondition, "snapshot %s is on node %s", name, node)
	}
	return &csi.DeleteSnapshotResponse{}, d.remove(snapshots, name)
}

// Mounts

func (d *double) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := filepath.Clean(req.GetTargetPath())
	if !filepath.IsAbs(target) || !mountable(req.GetVolumeCapability()) {
		return nil, status.Error(codes.InvalidArgument, "a volume can only be mounted, at a path")
	}
	if _, err := d.kept(volumes, req.GetVolumeId()); err != nil {
		return nil, err
	}
	there, err := mounted(target)
	if there || err != nil {
		return &csi.NodePublishVolumeResponse{}, err
	}
	if err = os.MkdirAll(target, 0o750); err == nil {
		err = syscall.Mount(d.path(volumes, req.GetVolumeId(), "files"), target, "", syscall.MS_BIND, "")
	}
	if err == nil && req.GetReadonly() {
		err = syscall.Mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	return &csi.NodePublishVolumeResponse{}, err
}

func (d *double) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := filepath.Clean(req.GetTargetPath())
	there, err := mounted(target)
	if there {
		err = syscall.Unmount(target, 0)
	}
	if err == nil {
		err = os.Remove(target)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return &csi.NodeUnpublishVolumeResponse{}, err
}

func mounted(path string) (bool, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	return slices.ContainsFunc(strings.Split(string(table), "\n"), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 4 && fields[4] == path
	}), err
}

func mountable(asked ...*csi.VolumeCapability) bool {
	return len(asked) > 0 && !slices.ContainsFunc(asked, func(one *csi.VolumeCapability) bool { return one.GetMount() == nil })
}

// Folders

func (d *double) path(parts ...string) string {
	return filepath.Join(append([]string{d.folder}, parts...)...)
}

// kept returns the record of a volume or snapshot.
func (d *double) kept(kind, name string) (kept record, err error) {
	if filepath.Base(name) != name || strings.Trim(name, ".") == "" {
		return kept, status.Errorf(codes.InvalidArgument, "no name of a folder: %q", name)
	}
	text, err := os.ReadFile(d.path(kind, name, "record.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return kept, status.Errorf(codes.NotFound, "no %s in %s", name, kind)
	}
	return kept, errors.Join(err, json.Unmarshal(text, &kept))
}

// ensure makes a volume or snapshot, at once, with the files that fill writes into a folder; or finds it.
func (d *double) ensure(kind, name string, asked record, fill func(to string) error) (record, error) {
	d.alone.Lock()
	defer d.alone.Unlock()
	kept, err := d.kept(kind, name)
	if err == nil && (kept.Source != asked.Source || kept.Bytes < asked.Bytes) {
		return kept, status.Errorf(codes.AlreadyExists, "%s is there in %s, otherwise: %+v", name, kind, kept)
	}
	if status.Code(err) != codes.NotFound {
		return kept, err
	}
	unfinished := d.path("unfinished")
	text, err := json.Marshal(asked)
	err = errors.Join(err, os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o750), os.MkdirAll(d.path(kind), 0o750))
	if err == nil {
		err = fill(filepath.Join(unfinished, "files"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(unfinished, "record.json"), text, 0o640)
	}
	if err == nil {
		err = os.Rename(unfinished, d.path(kind, name))
	}
	return asked, err
}

func (d *double) remove(kind, name string) error {
	d.alone.Lock()
	defer d.alone.Unlock()
	if _, err := d.kept(kind, name); status.Code(err) == codes.InvalidArgument {
		return err
	}
	return os.RemoveAll(d.path(kind, name))
}

func duplicate(from, to string) error {
	said, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w, %s", err, said)
	}
	return nil
}
