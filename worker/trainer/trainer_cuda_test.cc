// The CUDA trainer without a GPU: CUDA_VISIBLE_DEVICES hides any that exist.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {
namespace {

class TrainerCudaTest : public TrainerTest {
 protected:
  v1::TrainerError ErrorOf(const v1::JobSpec& spec) {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    trainer_ = "worker/trainer/trainer_cuda";
    server_.clear();
    const auto daemon = MakeDaemon();
    daemon->Launch(spec);
    EXPECT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->exit_code(0), 1);
    return daemon->LastWords(0).error();
  }
};

TEST_F(TrainerCudaTest, MissingGpuIsNamedAsTheReason) {
  const v1::TrainerError error = ErrorOf(Spec(1, "device: CUDA"));
  EXPECT_EQ(error.kind(), v1::FAILURE_INPUT);
  EXPECT_NE(error.message().find("this node has 0 usable ones"), std::string::npos)
      << error.message();
}

TEST_F(TrainerCudaTest, JobForCpusIsRefused) {
  EXPECT_EQ(ErrorOf(Spec(1)).kind(), v1::FAILURE_INPUT);
}

}  // namespace
}  // namespace paceline
