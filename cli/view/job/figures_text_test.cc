#include "cli/view/job/figures_text.h"

#include <limits>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

v1::Job Parsed(const std::string& text) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

TEST(FiguresTextTest, PaceIsInTokensWhereThereAreSome) {
  v1::Job job;
  EXPECT_EQ(PaceText(job), "");
  job.mutable_progress()->set_samples_per_s(8);
  EXPECT_EQ(PaceText(job), "8.00 samples/s");
  job.mutable_progress()->set_tokens_per_s(2048);
  EXPECT_EQ(PaceText(job), "2048 tokens/s");
}

TEST(FiguresTextTest, PaceKeepsItsUnitBeforeTokensAreMeasured) {
  v1::Job job;
  job.set_state(v1::RUNNING);
  job.mutable_spec()->mutable_data()->set_sequence_length(256);  // The default.
  job.mutable_progress()->set_samples_per_s(8);
  EXPECT_EQ(PaceText(job), "8.00 samples/s") << "of images";
  job.mutable_spec()->mutable_model()->mutable_llama();
  EXPECT_EQ(PaceText(job), "2048 tokens/s");
  job.mutable_progress()->set_tokens_per_s(2000);
  EXPECT_EQ(PaceText(job), "2000 tokens/s");
}

TEST(FiguresTextTest, PaceOfAnEndedJobIsThatOfItsWholeTraining) {
  v1::Job job = Parsed(R"(
    state: SUCCEEDED spec { ranks: 2 batch_per_rank: 4 accumulation_steps: 5 model { llama {} }
                            data { sequence_length: 16 } }
    progress { step: 100 training_s: 50 samples_per_s: 8 })");
  EXPECT_EQ(PaceText(job), "1280 tokens/s");
  job.mutable_progress()->set_tokens_per_s(2048);
  EXPECT_EQ(PaceText(job), "1280 tokens/s");
  job.mutable_spec()->mutable_data()->clear_sequence_length();
  job.mutable_progress()->clear_tokens_per_s();
  EXPECT_EQ(PaceText(job), "80.0 samples/s");
}

TEST(FiguresTextTest, PaceOfAnEndedJobWhoseStepsDifferedIsThatOfItsLastRanks) {
  v1::Job job = Parsed(R"(
    state: SUCCEEDED
    spec { ranks: 4 batch_per_rank: 5
           recovery { max_failures: 3 min_ranks: 2 batch: KEEP_RANK_BATCH } }
    progress { step: 100 training_s: 50 samples_per_s: 8 })");
  EXPECT_EQ(PaceText(job), "40.0 samples/s") << "it had four ranks throughout";
  job.add_membership_changes()->set_ranks_after(3);
  EXPECT_EQ(PaceText(job), "8.00 samples/s");
  job.mutable_spec()->mutable_recovery()->set_batch(v1::KEEP_GLOBAL_BATCH);
  EXPECT_EQ(PaceText(job), "40.0 samples/s") << "fewer ranks took the same samples";
  job.clear_membership_changes();
  job.mutable_spec()->mutable_recovery()->set_batch(v1::KEEP_RANK_BATCH);
  job.mutable_spec()->mutable_recovery()->set_max_ranks(8);
  EXPECT_EQ(PaceText(job), "8.00 samples/s") << "it may have started with fewer";
}

TEST(FiguresTextTest, PaceOfAnEndedJobWhoseRanksMayShareSamplesIsTheLastOne) {
  v1::Job job = Parsed(R"(
    state: SUCCEEDED spec { ranks: 4 batch_per_rank: 5 shards: 4 }
    progress { step: 100 training_s: 50 samples_per_s: 8 })");
  EXPECT_EQ(PaceText(job), "40.0 samples/s");
  job.mutable_spec()->set_session(true);
  EXPECT_EQ(PaceText(job), "8.00 samples/s") << "tensor parallelism";
}

TEST(FiguresTextTest, OnlyWhatARankKnowsHasAColumn) {
  v1::Job job = Parsed(R"(
    ranks { rank: 0 figures { steps: 10 learning_rate: 0.1 grad_norm: 1.5 data_wait_share: 0.02
                              memory { rss: 1048576 rss_peak: 2097152 } } }
    ranks { rank: 1 })");
  EXPECT_EQ(FigureTable(job, 0, false),
            "RANK   LR  GRAD NORM  DATA WAIT      RSS  RSS PEAK\n"
            "   0  0.1     1.5000      2.0 %  1.0 MiB   2.0 MiB\n");
  v1::RankFigures* figures = job.mutable_ranks(0)->mutable_figures();
  figures->set_grad_norm(std::numeric_limits<double>::quiet_NaN());
  figures->set_tokens_per_s(1000);
  figures->set_mfu(0.345);
  figures->mutable_memory()->set_reserved_peak(1 << 30);
  figures->mutable_memory()->set_capacity(int64_t{2} << 30);
  EXPECT_EQ(FigureTable(job, 0, false),
            "RANK  TOKENS/S     MFU   LR  DATA WAIT      RSS  RSS PEAK            GPU PEAK\n"
            "   0      1000  34.5 %  0.1      2.0 %  1.0 MiB   2.0 MiB  1.0 GiB of 2.0 GiB\n");
  job.mutable_ranks(0)->mutable_last_heard()->set_seconds(1000);
  EXPECT_EQ(FigureTable(job, 0, false), "") << "they are of then";
  job.mutable_ranks(0)->clear_last_heard();
  job.mutable_ranks(0)->clear_figures();
  EXPECT_EQ(FigureTable(job, 0, false), "");
}

TEST(FiguresTextTest, FlopsSayWhereTheirNumberComesFrom) {
  v1::Job job = Parsed(R"(
    ranks { rank: 0 figures { steps: 10 flops_per_s: 3.5e12 flops_source: FLOPS_COUNTED } }
    progress { flops_per_s: 3.5e12 flops_source: FLOPS_COUNTED })");
  EXPECT_THAT(FigureTable(job, 0, false), testing::HasSubstr("3.50 TFLOP/s, counted"));
  EXPECT_EQ(FlopsFacts(job),
            "3.50 TFLOP/s of all ranks, counted in their first step; no MFU without the device's "
            "peak (peak_flops)");
  job.mutable_ranks(0)->mutable_figures()->set_peak_flops(1e12);
  EXPECT_EQ(FlopsFacts(job),
            "3.50 TFLOP/s of all ranks, counted in their first step; no MFU, as it would be above "
            "100 %: check flops_per_sample and peak_flops");
  v1::Job compiled = job;
  compiled.mutable_spec()->mutable_model()->mutable_compiled();
  EXPECT_THAT(FlopsFacts(compiled), testing::HasSubstr("counted at the export of the model"));
  job.mutable_progress()->set_mfu(0.5);
  job.mutable_progress()->set_flops_source(v1::FLOPS_FORMULA);
  EXPECT_EQ(FlopsFacts(job), "3.50 TFLOP/s of all ranks, by the model's formula");
  job.mutable_progress()->set_flops_source(v1::FLOPS_GIVEN);
  EXPECT_EQ(FlopsFacts(job), "3.50 TFLOP/s of all ranks, by flops_per_sample of the job file");
  job.mutable_progress()->clear_flops_source();
  EXPECT_EQ(FlopsFacts(job), "neither counted nor given: the ranks' logs say why");
  job.mutable_ranks(0)->mutable_figures()->clear_steps();
  EXPECT_EQ(FlopsFacts(job), "") << "before the first interval";
}

TEST(FiguresTextTest, DriftIsToldOnceWithSlipstream) {
  v1::Job job = Parsed("ranks { rank: 0 figures { steps: 10 drift: 0.012 } }");
  EXPECT_THAT(FigureTable(job, 0, false), testing::HasSubstr("DRIFT"));
  job.mutable_ranks(0)->mutable_figures()->mutable_slipstream()->set_drift(0.012);
  EXPECT_THAT(FigureTable(job, 0, false), testing::Not(testing::HasSubstr("DRIFT")));
}

TEST(FiguresTextTest, ProfileTellsFileStepsSizeTimeOrError) {
  const v1::Job job = Parsed(R"(
    state: RUNNING
    profile { request { id: 2 first_step: 40 steps: 3 } ranks: [0, 1, 2] }
    ranks { rank: 0 node: "w0" profile { id: 2 trace: "/p/rank0.json" first_step: 40 steps: 3
                                         trace_bytes: 2048 dump_s: 0.5 } }
    ranks { rank: 1 node: "w0" profile { id: 2 error: "too late" } }
    ranks { rank: 2 node: "w1" profile { id: 1 trace: "/old" } })");
  EXPECT_TRUE(HasAnswered(job, 1));
  EXPECT_FALSE(HasAnswered(job, 2));
  EXPECT_EQ(ProfileTable(job, 0, false),
            "RANK  NODE  STEPS     SIZE   DUMP  FILE           ERROR\n"
            "   0  w0    40-42  2.0 KiB  0.5 s  /p/rank0.json  -\n"
            "   1  w0        -        -      -  -              too late\n"
            "   2  w1        -        -      -  -              awaited\n");
}

}  // namespace
}  // namespace paceline
