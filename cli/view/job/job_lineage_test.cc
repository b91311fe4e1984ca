// What a job is about, what it was made from, and what it has made, on its page.
#include <string>

#include "cli/view/job/job_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Job TrainedJob() {
  v1::Job job;
  job.set_id("job-0123456789ab");
  job.set_state(v1::SUCCEEDED);
  job.mutable_create_time()->set_seconds(1000);
  job.mutable_spec()->set_name("digits");
  job.mutable_spec()->set_steps(150);
  job.mutable_spec()->mutable_model()->mutable_resnet18();
  job.mutable_spec()->mutable_data()->set_train("/t");
  return job;
}

TEST(JobLineageTest, ShowsLabelsByKeyAndTheDescriptionAsLines) {
  v1::Job job = TrainedJob();
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              AllOf(Not(HasSubstr("Labels:")), Not(HasSubstr("About:"))));
  (*job.mutable_spec()->mutable_labels())["team"] = "vision";
  (*job.mutable_spec()->mutable_labels())["model"] = "llama";
  job.mutable_spec()->set_description("As last week,\nwith half the rate.\033[2J\n");
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Labels:     model=llama,team=vision\n"
                        "About:      As last week,\n"
                        "            with half the rate.\\x1b[2J\n"));
}

TEST(JobLineageTest, ShowsWhatTheJobWasMadeFrom) {
  v1::Job job = TrainedJob();
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), HasSubstr("Made from:  data /t\n"));
  job.mutable_made_from()->set_directory("/c/job-7/step-000000000120.g2");
  job.mutable_made_from()->set_job("job-7");
  job.mutable_made_from()->set_step(120);
  job.mutable_made_from()->set_generation(2);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Made from:  checkpoint job-7/120.g2, /c/job-7/step-000000000120.g2\n"
                        "            data /t\n"));
  job.mutable_made_from()->Clear();
  job.mutable_made_from()->set_directory("/by/hand\033[2J");
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Made from:  checkpoint /by/hand\\x1b[2J\n"));
  job.clear_made_from();
  job.mutable_spec()->set_init_from("/w.safetensors");
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Made from:  weights /w.safetensors\n            data /t\n"));
}

TEST(JobLineageTest, ShowsTheDataWithWeightsAndHashes) {
  v1::Job job = TrainedJob();
  job.mutable_spec()->mutable_data()->set_train_hash("0123456789abcdef0123");
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Made from:  data /t, hash 0123456789ab\n"));
  v1::Data* data = job.mutable_spec()->mutable_data();
  data->Clear();
  v1::DataSource* web = data->add_sources();
  web->set_path("/web.tokens");
  web->set_weight(0.7);
  web->set_hash("fedcba9876543210fedc");
  data->add_sources()->set_path("/code.tokens");
  data->mutable_sources(1)->set_weight(3);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Made from:  data /web.tokens, weight 0.7, hash fedcba987654\n"
                        "            data /code.tokens, weight 3\n"));
}

TEST(JobLineageTest, ShowsWhatScriptsHaveMade) {
  v1::Job job = TrainedJob();
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("Artifacts:")));
  v1::Artifact& whole = *job.add_artifacts();
  whole.set_name("model");
  whole.set_path("/out/model");
  whole.set_directory(true);
  whole.set_bytes(3 << 20);
  whole.set_sha256(std::string(32, 'a') + std::string(32, 'b'));
  whole.set_step(60);
  whole.set_node("w0");
  v1::Artifact& late = *job.add_artifacts();
  late.set_name("weights");
  late.set_path("/out/w");
  v1::Artifact& gone = *job.add_artifacts();
  gone.set_name("x");
  gone.set_path("/out/x");
  gone.set_error("it is gone\033[2J");
  job.set_artifacts_left_out(true);
  const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(page, HasSubstr("Artifacts:\n"));
  EXPECT_THAT(page, HasSubstr("aaaaaaaaaaaa   "));
  EXPECT_THAT(page, HasSubstr("w0    /out/model/\n"));
  EXPECT_THAT(page, HasSubstr("not known yet"));
  EXPECT_THAT(page, HasSubstr("/out/x: it is gone\\x1b[2J\n"));
  EXPECT_THAT(page, HasSubstr("and more names, of which only 3 are kept\n"));
  PageStyle wide;
  wide.wide = true;
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), wide), HasSubstr(whole.sha256()));
}

}  // namespace
}  // namespace paceline
