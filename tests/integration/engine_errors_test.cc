// Errors inside the training engine reach the job completely: what, where, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EngineErrorsTest : public ::testing::Test {
 protected:
  // Runs a job that must fail because of one rank, and returns how that ended.
  v1::JobFailure Fail(const v1::JobSpec& spec) {
    const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
    EXPECT_EQ(job.state(), v1::FAILED) << job.DebugString();
    // People read the reason; it must hold what the rank said.
    EXPECT_THAT(job.reason(), HasSubstr(job.failure().exit().message().substr(0, 60)));
    return job.failure();
  }

  v1::JobSpec Llama(const std::string& tokens) {
    v1::JobSpec spec = cluster_.SmallJob(1, 10);
    spec.mutable_model()->mutable_llama();
    spec.mutable_data()->set_train(tokens);
    spec.mutable_data()->clear_eval();
    spec.clear_evaluation();
    spec.mutable_data()->set_sequence_length(16);
    return spec;
  }

  std::string WriteFile(const std::string& name, const std::string& bytes) {
    const std::string path = cluster_.directory() + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  TestCluster cluster_{/*workers=*/1, /*slots=*/2};
};

TEST_F(EngineErrorsTest, NanLossNamesStepRankAndParameter) {
  v1::JobSpec spec = cluster_.SmallJob(2, 100000);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(1);
  fault->set_step(3);
  fault->set_kind(v1::NAN_LOSS);
  const v1::JobFailure failure = Fail(spec);
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_EQ(failure.exit().failure(), v1::FAILURE_ERROR);
  EXPECT_THAT(failure.exit().message(),
              AllOf(HasSubstr("step 3 (from 0) of rank 1: the loss is nan"),
                    HasSubstr("layers.0.weight"), HasSubstr("on_nonfinite: skip")));
}

TEST_F(EngineErrorsTest, WeightsThatDoNotFitAreListedWhole) {
  v1::JobSpec spec = cluster_.SmallJob(1, 2);
  spec.set_export_final(cluster_.directory() + "/weights.safetensors");
  ASSERT_EQ(cluster_.WaitForEnd(cluster_.Submit(spec).id()).state(), v1::SUCCEEDED);
  spec.clear_export_final();
  spec.set_init_from(cluster_.directory() + "/weights.rank0.safetensors");
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  for (const int64_t width : {16, 16, 16}) spec.mutable_model()->mutable_mlp()->add_hidden(width);
  const v1::JobFailure failure = Fail(spec);
  EXPECT_EQ(failure.exit().failure(), v1::FAILURE_INPUT);
  EXPECT_THAT(failure.exit().message(),
              AllOf(HasSubstr("weights.rank0.safetensors"), HasSubstr("layers.2.weight is missing"),
                    HasSubstr("layers.3.bias is missing"),
                    HasSubstr("layers.1.weight has shape [2, 16] and needs [16, 16]")));
}

TEST_F(EngineErrorsTest, ModelAndDataThatDoNotGoTogether) {
  const v1::JobFailure failure = Fail(Llama(cluster_.SmallJob(1, 1).data().train()));
  EXPECT_EQ(failure.exit().failure(), v1::FAILURE_INPUT);
  EXPECT_THAT(failure.exit().message(), AllOf(HasSubstr("llama"), HasSubstr("data.train")));
}

TEST_F(EngineErrorsTest, DataThatIsNoneOrTooShort) {
  const std::string text = WriteFile("text", std::string(1000, 'x'));
  EXPECT_THAT(Fail(Llama(text)).exit().message(), AllOf(HasSubstr("data.train"), HasSubstr(text)));
  v1::JobSpec bare = Llama(WriteFile("few.u16", std::string(20, '\1')));
  bare.mutable_data()->set_token_type(v1::TOKEN_TYPE_UINT16);
  EXPECT_THAT(Fail(bare).exit().message(), AllOf(HasSubstr("few.u16"), HasSubstr("10 tokens")));
}

TEST_F(EngineErrorsTest, TokensBeyondTheVocabulary) {
  v1::JobSpec spec = Llama(WriteFile("wild.u16", std::string(4000, '\x7f')));
  spec.mutable_data()->set_token_type(v1::TOKEN_TYPE_UINT16);
  const v1::JobFailure failure = Fail(spec);
  EXPECT_EQ(failure.exit().failure(), v1::FAILURE_INPUT);
  EXPECT_THAT(failure.exit().message(), AllOf(HasSubstr("wild.u16: at offset "), HasSubstr("32639"),
                                              HasSubstr("model.vocab_size")));
}

TEST_F(EngineErrorsTest, FileThatIsNoTorchScriptModule) {
  v1::JobSpec spec = cluster_.SmallJob(1, 2);
  const std::string file = WriteFile("module.pt", "not a module");
  spec.mutable_model()->mutable_torchscript()->set_file(file);
  const v1::JobFailure failure = Fail(spec);
  EXPECT_EQ(failure.exit().failure(), v1::FAILURE_INPUT);
  EXPECT_THAT(failure.exit().message(), HasSubstr(file));
}

TEST_F(EngineErrorsTest, OutputThatCannotBeWritten) {
  v1::JobSpec spec = cluster_.SmallJob(1, 2);
  spec.set_export_final("/proc/nowhere/x.safetensors");
  EXPECT_THAT(Fail(spec).exit().message(), HasSubstr("export_final"));
}

}  // namespace
}  // namespace paceline
