#include "tests/integration/test_cluster.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/loopback.h"
#include "common/image_shard/image_shard.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/credentials.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "tests/integration/new_folder.h"

namespace paceline {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// Two classes of 4x4 images: bright on the left, bright on the right, with noise.
void WriteSamples(const std::string& path, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> labels;
  std::vector<uint8_t> pixels;
  for (int i = 0; i < count; ++i) {
    labels.push_back(random() % 2);
    for (int p = 0; p < 16; ++p) {
      const bool bright = (p % 4 < 2) == (labels.back() == 0);
      pixels.push_back((bright ? 150 : 50) + random() % 50);
    }
  }
  const absl::Status status = WriteImageShard(path, {1, 4, 4, 2}, labels, pixels);
  ASSERT_TRUE(status.ok()) << status;
}

// Step rings anywhere below the directory.
int Rings(const std::string& directory) {
  int rings = 0;
  std::error_code vanished;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, vanished)) {
    rings += entry.path().extension() == ".ring";
  }
  return rings;
}

std::string Address(const std::string& address_file, const char* kind) {
  const auto json = nlohmann::json::parse(ReadFile(address_file), nullptr, false);
  return json.is_discarded() || !json.contains(kind) ? "" : json[kind].get<std::string>();
}

}  // namespace

std::string Program(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"), "/dist/bin/",
                      name);
}

TestCluster::TestCluster(int workers, int slots, TestNetwork network)
    : slots_(slots),
      network_(std::move(network)),
      tls_(network_.tls || !IsLoopback(network_.controller_host)),
      directory_(NewFolder()),
      runtime_(NewFolder("/dev/shm")) {
  WriteSamples(directory_ + "/train.shard", 256, 1);
  WriteSamples(directory_ + "/eval.shard", 64, 2);
  if (tls_) MakeIdentities();
  if (network_.leader == nullptr) {
    ReservePorts();
    StartController();
  } else {
    grpc_address_ = network_.controllers;
    FollowLeader();
  }
  for (int w = 0; w < workers; ++w) StartWorker(w);
  WaitForNodes(workers);
}

TestCluster::~TestCluster() {
  // Ends all jobs first, then the daemons, as an operator would.
  if (network_.leader != nullptr) {
    FollowLeader();
  } else if (!controller_.has_value()) {
    StartController();
  }
  grpc::ClientContext context;
  v1::ListJobsResponse jobs;
  v1::JobService::NewStub(channel_)->List(&context, v1::ListJobsRequest(), &jobs);
  for (const v1::Job& job : jobs.jobs()) {
    if (HasEnded(job)) continue;
    grpc::ClientContext cancel_context;
    v1::CancelJobRequest request;
    request.set_job(job.id());
    request.set_request_id("cancel-" + job.id());
    request.set_grace_s(0.1);
    v1::Job cancelled;
    v1::JobService::NewStub(channel_)->Cancel(&cancel_context, request, &cancelled);
    WaitForEnd(job.id());
  }
  for (auto& [w, worker] : workers_) {
    if (!worker.has_value()) StartWorker(w);
  }
  WaitForNodes(static_cast<int>(workers_.size()));
  EXPECT_TRUE(Eventually([&] { return Rings(runtime_) == 0; })) << "rings are left behind";
  EXPECT_TRUE(Eventually([&] {
    return ProcessesMentioning(directory_ + "/w").size() == workers_.size();
  })) << "trainers are left behind";
  for (auto& [w, worker] : workers_) {
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->Wait(), 0) << ReadFile(WorkerFile(w, "log"));
  }
  if (controller_.has_value()) {
    controller_->Signal(SIGTERM);
    EXPECT_EQ(controller_->Wait(), 0) << ReadFile(directory_ + "/controller.log");
  }
  EXPECT_TRUE(ProcessesMentioning(directory_).empty()) << "processes are left behind";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(runtime_)) {
    EXPECT_TRUE(entry.is_directory()) << "left in shared memory: " << entry.path();
  }
  std::filesystem::remove_all(runtime_);
}

void TestCluster::MakeIdentities() {
  const auto authority = CertificateAuthority::Make("test", absl::Now());
  ASSERT_TRUE(authority.ok()) << authority.status();
  ASSERT_TRUE(authority->Save(TlsDir("ca")).ok());
  WriteIdentity(TlsDir("controller"), *authority,
                {{Role::kController, "c0"}, {network_.controller_host}, kControllerLife});
  WriteIdentity(TlsDir("admin"), *authority, {{Role::kAdmin, "ann"}, {}, kUserLife});
}

std::vector<std::string> TestCluster::ClientFlags() const {
  if (!tls_) return {"--server", grpc_address_, "--plaintext"};
  return {"--server", grpc_address_, "--tls-dir", TlsDir("admin")};
}

void TestCluster::ReservePorts() {
  const auto reserve = [](const std::string& host, std::optional<ReservedPort>& port) {
    absl::StatusOr<ReservedPort> taken = ReservedPort::Take(0);
    EXPECT_TRUE(taken.ok()) << taken.status();
    if (!taken.ok()) return host + ":0";
    port.emplace(*std::move(taken));
    return absl::StrCat(host, ":", port->port());
  };
  listen_ = reserve(network_.controller_host, grpc_port_);
  http_ = reserve(network_.loopback, http_port_);
}

void TestCluster::KillController() {
  controller_->Kill();
  controller_.reset();
}

void TestCluster::StartController() {
  const std::string address_file = directory_ + "/controller.address";
  std::filesystem::remove(address_file);
  std::vector<std::string> command = {
      Program("paceline-controller"), "--listen",       listen_,     "--http", http_, "--state-dir",
      directory_ + "/controller",     "--address-file", address_file};
  if (tls_) {
    command.insert(command.end(), {"--tls-dir", TlsDir("controller"), "--ca-dir", TlsDir("ca")});
  } else {
    command.push_back("--plaintext");
  }
  const std::vector<std::string>& flags = network_.controller_flags;
  command.insert(command.end(), flags.begin(), flags.end());
  controller_.emplace(command, directory_ + "/controller.log");
  ASSERT_TRUE(Eventually([&] { return !Address(address_file, "grpc").empty(); }))
      << ReadFile(directory_ + "/controller.log");
  grpc_address_ = Address(address_file, "grpc");
  Connect(grpc_address_);
}

void TestCluster::FollowLeader() { Connect(network_.leader()); }

void TestCluster::Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  channel_ = grpc::CreateCustomChannel(
      address,
      tls_ ? ChannelCredentials(FilesIn(TlsDir("admin"))) : grpc::InsecureChannelCredentials(),
      arguments);
}

void TestCluster::KillWorker(int w) {
  workers_[w]->Kill();
  workers_[w].reset();
}

void TestCluster::StartWorker(int w) {
  const std::string base = absl::StrCat(directory_, "/w", w);
  std::filesystem::create_directories(base);
  std::vector<std::string> command = {
      Program("paceline-worker"), "--controller",   grpc_address_,        "--name",
      absl::StrCat("w", w),       "--state-dir",    base + "/state",      "--runtime-dir",
      WorkerRuntime(w),           "--slots",        absl::StrCat(slots_), "--listen",
      network_.loopback + ":0",   "--address-file", base + "/address"};
  if (network_.worker_flags != nullptr) {
    const std::vector<std::string> flags = network_.worker_flags(w);
    command.insert(command.end(), flags.begin(), flags.end());
  } else if (tls_) {
    const std::string dir = TlsDir(absl::StrCat("w", w));
    const auto authority = CertificateAuthority::Load(TlsDir("ca"));
    ASSERT_TRUE(authority.ok()) << authority.status();
    WriteIdentity(dir, *authority, {{Role::kWorker, absl::StrCat("w", w)}, {}, kWorkerLife});
    command.insert(command.end(), {"--tls-dir", dir});
  } else {
    command.push_back("--plaintext");
  }
  if (!network_.commands.empty()) {
    command.insert(command.end(), {"--commands", network_.commands});
  }
  if (network_.objects != nullptr) {
    for (const std::string& prefix : network_.objects(w)) {
      command.insert(command.end(), {"--object-store", prefix});
    }
  }
  if (network_.host != nullptr) {
    for (const char* flag : {"--address", "--interface"}) {
      command.insert(command.end(), {flag, network_.host(w)});
    }
  }
  if (network_.enter != nullptr) {
    const std::vector<std::string> enter = network_.enter(w);
    command.insert(command.begin(), enter.begin(), enter.end());
  }
  workers_[w].emplace(command, WorkerFile(w, "log"));
}

std::string TestCluster::WorkerFile(int w, const std::string& name) const {
  return absl::StrCat(directory_, "/w", w, "/", name);
}

std::string TestCluster::WorkerRuntime(int w) const { return absl::StrCat(runtime_, "/w", w); }

void TestCluster::WaitForNodes(int count) {
  ASSERT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    v1::ListNodesResponse nodes;
    v1::NodeService::NewStub(channel_)->List(&context, v1::ListNodesRequest(), &nodes);
    int ready = 0;
    for (const v1::Node& node : nodes.nodes()) ready += node.state() == v1::NODE_READY;
    return ready == count;
  })) << ReadFile(WorkerFile(0, "log"));
}

v1::JobSpec TestCluster::SmallJob(int ranks, int64_t steps) const {
  v1::JobSpec spec;
  spec.set_name("small");
  spec.set_ranks(ranks);
  spec.set_threads_per_rank(1);
  spec.mutable_model()->mutable_mlp()->add_hidden(16);
  spec.mutable_data()->set_train(directory_ + "/train.shard");
  spec.mutable_data()->set_eval(directory_ + "/eval.shard");
  spec.set_batch_per_rank(8);
  spec.set_steps(steps);
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  spec.mutable_optimizer()->set_learning_rate(0.05);
  spec.set_log_every(1);
  return spec;
}

v1::JobSpec TestCluster::LongJob(int ranks, int64_t steps) const {
  v1::JobSpec spec = SmallJob(ranks, steps);
  spec.set_allow_chaos(true);
  *spec.add_chaos() = Sleep(0.05, 0, steps);
  return spec;
}

v1::Fault TestCluster::Sleep(double seconds, int64_t from_step, int64_t steps) const {
  v1::Fault sleep;
  sleep.set_kind(v1::SLEEP);
  sleep.set_seconds(seconds);
  sleep.set_step(from_step);
  sleep.set_steps(steps);
  sleep.set_until_file(directory_ + "/released");
  return sleep;
}

void TestCluster::Release() const { EXPECT_TRUE(std::ofstream(directory_ + "/released").good()); }

v1::Job TestCluster::Submit(const v1::JobSpec& spec) {
  grpc::ClientContext context;
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(absl::StrCat("request-", ++requests_));
  v1::Job job;
  grpc::Status status = v1::JobService::NewStub(channel_)->Submit(&context, request, &job);
  if (HasLostLeader(status)) {
    grpc::ClientContext again;
    status = v1::JobService::NewStub(channel_)->Submit(&again, request, &job);
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

bool TestCluster::HasLostLeader(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !network_.leader) return false;
  FollowLeader();
  return true;
}

v1::Job TestCluster::Get(const std::string& id) {
  grpc::ClientContext context;
  v1::GetJobRequest request;
  request.set_job(id);
  v1::Job job;
  const grpc::Status status = v1::JobService::NewStub(channel_)->Get(&context, request, &job);
  if (HasLostLeader(status)) {
    grpc::ClientContext again;
    v1::JobService::NewStub(channel_)->Get(&again, request, &job);
  }
  return job;
}

v1::Job TestCluster::WaitUntil(const std::string& id,
                               const std::function<bool(const v1::Job&)>& holds) {
  v1::Job job;
  const bool in_time = Eventually(
      [&] {
        job = Get(id);
        return holds(job);
      },
      kPatience);
  EXPECT_TRUE(in_time) << job.DebugString();
  return job;
}

v1::Job TestCluster::WaitForSteps(const std::string& id, int64_t steps) {
  return WaitUntil(id, [steps](const v1::Job& job) {
    return job.state() == v1::RUNNING && job.progress().step() >= steps;
  });
}

bool HasEnded(const v1::Job& job) {
  return job.state() == v1::SUCCEEDED || job.state() == v1::FAILED || job.state() == v1::CANCELLED;
}

v1::Job TestCluster::WaitForEnd(const std::string& id) { return WaitUntil(id, HasEnded); }

std::vector<v1::Checkpoint> TestCluster::ListCheckpoints(const std::string& id) {
  grpc::ClientContext context;
  v1::ListCheckpointsRequest request;
  request.set_job(id);
  v1::ListCheckpointsResponse response;
  const grpc::Status status =
      v1::CheckpointService::NewStub(channel_)->List(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return {response.checkpoints().begin(), response.checkpoints().end()};
}

std::string TestCluster::Log(const std::string& id, int rank) {
  grpc::ClientContext context;
  v1::StreamLogsRequest request;
  request.set_job(id);
  request.set_rank(rank);
  const auto jobs = v1::JobService::NewStub(channel_);
  auto stream = jobs->StreamLogs(&context, request);
  std::string log;
  v1::LogChunk chunk;
  while (stream->Read(&chunk)) {
    EXPECT_EQ(chunk.offset(), static_cast<int64_t>(log.size())) << "a gap in the log";
    log += chunk.data();
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return log;
}

std::string TestCluster::HttpGet(const std::string& address_file, const std::string& path) const {
  httplib::Client client("http://" + Address(directory_ + "/" + address_file, "http"));
  const auto response = client.Get(path.c_str());
  return response ? response->body : "";
}

}  // namespace paceline
