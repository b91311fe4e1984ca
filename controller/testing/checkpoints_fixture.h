// A controller over real sockets, with a worker played by the test, on which a job of two ranks
// trains and saves.
#ifndef CONTROLLER_TESTING_CHECKPOINTS_FIXTURE_H_
#define CONTROLLER_TESTING_CHECKPOINTS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/testing/server_fixture.h"
#include "proto/checkpoint.pb.h"

namespace paceline {

class CheckpointsTest : public ServerTest {
 protected:
  v1::JobSpec SavingSpec(int max_restarts = 0);

  void Start(const v1::JobSpec& spec);
  // Takes up the plan of the newest generation and trains.
  void Run(int ranks);

  static v1::SaveStatus Save(int64_t step, v1::SaveState state, int64_t order = 0);

  // Reports that all ranks are in `state`; rank r reports saves[r], if any.
  void Tell(v1::TrainerState state, const std::vector<v1::SaveStatus>& saves = {});
  void TellResult(const v1::CheckpointTask& task, const std::vector<int64_t>& found = {});
  // Both ranks save, and rank 0 commits as soon as it may.
  void Complete(int64_t step, int64_t order = 0);
  void FailRank1();
  v1::CheckpointTask ReadTask();

  v1::Job WaitUntil(const std::function<bool(const v1::Job&)>& holds);

  grpc::Status Order(const std::string& request_id, v1::Job* job, bool now = false,
                     const std::string& directory = "");
  grpc::Status GetCheckpoint(const std::string& name, v1::Checkpoint* checkpoint);
  grpc::Status Delete(const std::string& name, const std::string& request_id, bool force,
                      v1::Checkpoint* checkpoint);
  grpc::Status Pin(const std::string& name, const std::string& request_id, bool pinned,
                   v1::Checkpoint* checkpoint);
  grpc::Status ListPage(const v1::ListCheckpointsRequest& request,
                        v1::ListCheckpointsResponse* response);
  std::vector<int64_t> List(const std::string& job);
  grpc::Status Resume(v1::ResumeJobRequest request, const std::string& request_id, v1::Job* job);
  grpc::Status Cancel(bool save, const std::string& request_id, v1::Job* job);
  std::string Directory(const std::string& name);

  v1::Job job_;
  v1::NodePlan plan_;
  std::unique_ptr<PlayedWorker> worker_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_CHECKPOINTS_FIXTURE_H_
