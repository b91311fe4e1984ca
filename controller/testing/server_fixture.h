// A controller over real sockets, its clients, and workers played by the test.
#ifndef CONTROLLER_TESTING_SERVER_FIXTURE_H_
#define CONTROLLER_TESTING_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/testing/running_server.h"
#include "proto/job.grpc.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// A worker played by the test: one session.
class PlayedWorker {
 public:
  PlayedWorker(const std::shared_ptr<grpc::Channel>& channel, v1::Hello hello);
  ~PlayedWorker();

  // Returns the next message, skipping answers to reports, which may come at any time. None if the
  // session has ended.
  std::optional<v1::ControllerMessage> Read();
  // Skips to the answer to that report. Returns false if the session has ended.
  bool ReadAnswer(int64_t report);
  // Skips to a plan with this many trainers.
  v1::NodePlan ReadPlan(int trainers);
  // Skips to a plan for which `holds`.
  v1::NodePlan ReadUntil(const std::function<bool(const v1::NodePlan&)>& holds);
  void Write(const v1::WorkerMessage& message);
  void Report(const std::vector<v1::TrainerReport>& trainers);
  // Status of the session, which has ended.
  grpc::Status Finish();

 private:
  struct Session;

  const std::unique_ptr<Session> session_;
  bool finished_ = false;
};

v1::Hello Hello(const std::string& node, int slots = 2, const std::string& uid = "uid");

v1::JobSpec Spec(int ranks = 1);

// Reason in the google.rpc.ErrorInfo; empty: there is none.
std::string Reason(const grpc::Status& status);

v1::TrainerReport Trainer(const v1::TrainerPlan& plan, v1::TrainerState state);

class ServerTest : public ::testing::Test {
 protected:
  ServerTest();

  void Connect();
  void Restart();

  // Connects a worker and waits until its hello has been processed.
  std::unique_ptr<PlayedWorker> Join(const v1::Hello& hello);

  grpc::Status Submit(const v1::JobSpec& spec, const std::string& request_id, v1::Job* job);
  v1::Job Get(const std::string& reference);
  // Watches the job until it is in `state`.
  v1::Job WaitFor(const std::string& id, v1::JobState state);

  // Metrics of the controller once they contain `wanted`; they are shown a bit after the change is
  // stored.
  std::string ReadMetrics(const std::string& wanted);

  const std::string directory_ = NewDirectory();
  std::unique_ptr<RunningServer> server_ = std::make_unique<RunningServer>(directory_);
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_SERVER_FIXTURE_H_
