// A real cluster on this machine for one test: the controller, worker daemons, shims and
// trainers as users run them, on free ports and in directories of their own.
//
// The destructor ends everything and fails the test if a process or a file in shared memory
// is left behind.
//
// Thread-compatible.
#ifndef TESTS_INTEGRATION_TEST_CLUSTER_H_
#define TESTS_INTEGRATION_TEST_CLUSTER_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "tests/integration/process.h"
#include "worker/daemon/trainers/reserved_port.h"

namespace paceline {

// Path of one of our programs, by its installed name.
std::string Program(const std::string& name);

bool HasEnded(const v1::Job& job);

// Where the daemons of a cluster are. Default: all on this host.
struct TestNetwork {
  std::string controller_host = "127.0.0.1";
  // The loopback address; the daemons serve their metrics there.
  std::string loopback = "127.0.0.1";
  std::vector<std::string> controller_flags = {};
  // Addresses of controllers that the test runs itself, separated by commas; then none is started.
  std::string controllers = {};
  // Waits until one of these leads, and returns its address.
  std::function<std::string()> leader = {};
  // For worker w: the beginning of its command line, and the address of its host.
  std::function<std::vector<std::string>(int w)> enter = {};
  std::function<std::string(int w)> host = {};
  // The workers' flag --commands; empty: its default.
  std::string commands = {};
  // Use TLS with the cluster's own authority. Always on unless the controller is on the loopback.
  bool tls = false;
  // Flags by which worker w gets its certificate by itself; the constructor waits for it.
  std::function<std::vector<std::string>(int w)> worker_flags = {};
  // What jobs may read of object stores on worker w (--object-store).
  std::function<std::vector<std::string>(int w)> objects = {};
};

class TestCluster {
 public:
  // Starts a controller and `workers` workers with `slots` slots each, and waits until they are
  // ready.
  explicit TestCluster(int workers = 2, int slots = 2, TestNetwork network = {});
  ~TestCluster();

  const std::string& directory() const { return directory_; }
  std::string server() const { return grpc_address_; }
  // Flags of `paceline` to reach the controller as an administrator.
  std::vector<std::string> ClientFlags() const;
  // With TLS: the folder with the files of a principal ("admin", "controller", "w0") or of the
  // authority ("ca").
  std::string TlsDir(const std::string& name) const { return directory_ + "/tls/" + name; }
  // HOST:PORT; the same after a new start.
  const std::string& ControllerHttp() const { return http_; }
  // To the controller, as an administrator.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // With the test's own controllers: uses the present leader from now on. Submit and functions that
  // read a job call this themselves when nobody answers.
  void FollowLeader();

  // Kills with SIGKILL / starts again where it was.
  void KillController();
  void StartController();
  void KillWorker(int w);
  void StartWorker(int w);

  // A job that trains a small perceptron on samples that the constructor made; with
  // evaluation and a log line a step.
  v1::JobSpec SmallJob(int ranks, int64_t steps) const;
  // As above, but lasts until it is stopped or released: rank 0 takes 50 ms more for each step.
  v1::JobSpec LongJob(int ranks, int64_t steps = 1000) const;
  // A disturbance of rank 0: each of these steps takes `seconds` more until Release, after which it
  // continues at full pace.
  v1::Fault Sleep(double seconds, int64_t from_step, int64_t steps) const;
  void Release() const;

  // Waits until `count` nodes are ready.
  void WaitForNodes(int count);

  v1::Job Submit(const v1::JobSpec& spec);
  v1::Job Get(const std::string& id);
  // Reads the job again and again until `holds`; the test fails after 60 s.
  v1::Job WaitUntil(const std::string& id, const std::function<bool(const v1::Job&)>& holds);
  // Running, and every rank has completed some steps.
  v1::Job WaitForSteps(const std::string& id, int64_t steps);
  v1::Job WaitForEnd(const std::string& id);
  // Complete and damaged ones of a job, newest first.
  std::vector<v1::Checkpoint> ListCheckpoints(const std::string& id);
  // One rank's whole log.
  std::string Log(const std::string& id, int rank);

  // The body of http://<address>/<path>; the worker's or the controller's.
  std::string HttpGet(const std::string& address_file, const std::string& path) const;
  std::string WorkerFile(int w, const std::string& name) const;
  std::string WorkerRuntime(int w) const;
  pid_t WorkerPid(int w) const { return workers_.at(w)->pid(); }
  pid_t ControllerPid() const { return controller_->pid(); }

 private:
  void MakeIdentities();
  void ReservePorts();
  void Connect(const std::string& address);
  // Whether to ask again: there are other controllers, and this one has gone.
  bool HasLostLeader(const grpc::Status& status);

  const int slots_;
  const TestNetwork network_;
  const bool tls_;
  std::string directory_;  // State and logs.
  std::string runtime_;    // Short, in shared memory.
  // The controller's; held, so that no other program gets them between two of its lives.
  std::optional<ReservedPort> grpc_port_;
  std::optional<ReservedPort> http_port_;
  std::string listen_;
  std::string http_;
  std::string grpc_address_;
  std::optional<Process> controller_;
  std::map<int, std::optional<Process>> workers_;
  std::shared_ptr<grpc::Channel> channel_;
  int requests_ = 0;
};

}  // namespace paceline

#endif  // TESTS_INTEGRATION_TEST_CLUSTER_H_
