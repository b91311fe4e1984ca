// Certificates of real processes: made by `paceline pki`, obtained with tokens, renewed, revoked,
// and refused when they are not valid.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/exit_codes.h"
#include "common/tls/certificate.h"
#include "common/tls/credentials.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/testing/tls_get.h"
#include "proto/identity.grpc.pb.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Of cli/exit_codes.h.
constexpr int kNotPermitted = 5;
// Long enough for a renewal or two.
constexpr absl::Duration kLong = absl::Seconds(90);

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// A controller with an authority of its own, both made with `paceline`, and workers on demand.
class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    const Finished made = RunToEnd({Program("paceline"), "pki", "init", directory_ + "/pki",
                                    "--host", "127.0.0.1", "--admin", "ann"});
    EXPECT_EQ(made.exit_code, 0) << made.output;
  }
  ~IdentityTest() override {
    workers_.clear();
    controller_.reset();
    fs::remove_all(runtime_);
  }

  std::string Dir(const std::string& name) const { return directory_ + "/pki/" + name; }
  std::string ControllerLog() const { return ReadFile(directory_ + "/controller.log"); }
  std::string WorkerLog(const std::string& name) const {
    return ReadFile(directory_ + "/" + name + ".log");
  }

  void StartController(std::vector<std::string> flags) {
    const std::string file = directory_ + "/address";
    fs::remove(file);
    std::vector<std::string> command = {Program("paceline-controller"),
                                        "--listen",
                                        listen_,
                                        "--http",
                                        http_listen_,
                                        "--state-dir",
                                        directory_ + "/controller",
                                        "--address-file",
                                        file};
    command.insert(command.end(), flags.begin(), flags.end());
    controller_.emplace(command, directory_ + "/controller.log");
    ASSERT_TRUE(Eventually([&] { return !ReadFile(file).empty(); })) << ControllerLog();
    const auto addresses = nlohmann::json::parse(ReadFile(file));
    address_ = addresses["grpc"].get<std::string>();
    http_ = addresses["http"].get<std::string>();
  }
  void StartTlsController(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--tls-dir", Dir("controller"), "--ca-dir", Dir("ca")});
    StartController(flags);
  }

  std::vector<std::string> WorkerCommand(const std::string& name, const std::string& dir,
                                         const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {Program("paceline-worker"),
                                        "--controller",
                                        address_,
                                        "--name",
                                        name,
                                        "--slots",
                                        "1",
                                        "--state-dir",
                                        directory_ + "/" + dir,
                                        "--runtime-dir",
                                        runtime_ + "/" + dir};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  // Flags of a worker that joins as the node with the token in the file.
  std::vector<std::string> Joining(const std::string& name, const std::string& token,
                                   const std::string& dir) const {
    return WorkerCommand(name, dir,
                         {"--tls-dir", directory_ + "/" + dir + "-tls", "--ca",
                          Dir("ca") + "/ca.pem", "--join-token-file", token});
  }
  Process& StartWorker(const std::vector<std::string>& command, const std::string& name) {
    return *workers_.emplace_back(
        std::make_unique<Process>(command, directory_ + "/" + name + ".log"));
  }

  // Runs `paceline` as the principal whose files are in `tls_dir`.
  Finished Paceline(std::vector<std::string> arguments, const std::string& tls_dir = "") const {
    arguments.insert(arguments.begin(),
                     {Program("paceline"), "--server", address_, "--timeout", "20", "--tls-dir",
                      tls_dir.empty() ? Dir("admin") : tls_dir});
    return RunToEnd(arguments);
  }
  // The file with a token for the node.
  std::string Token(const std::string& node) const {
    const std::string file = absl::StrCat(directory_, "/", node, ".token");
    const Finished made = Paceline({"pki", "token", node, "--out", file, "--owner", "ann"});
    EXPECT_EQ(made.exit_code, 0) << made.output;
    return file;
  }
  bool IsReady(const std::string& node) const {
    const Finished listed = Paceline({"node", "list", "--state", "ready", "-o", "name"});
    return listed.exit_code == 0 && absl::StrContains(listed.output, node);
  }

  const std::string directory_ = NewFolder();
  const std::string runtime_ = NewFolder("/dev/shm");
  std::string listen_ = "127.0.0.1:0";
  std::string http_listen_ = "127.0.0.1:0";
  std::string address_;
  std::string http_;
  std::optional<Process> controller_;
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST_F(IdentityTest, NodeJoinsByATokenThatNobodyElseCanUse) {
  StartTlsController();
  const Finished early = RunToEnd(Joining("w0", directory_ + "/w0.token", "w0"));
  EXPECT_EQ(early.exit_code, kExitNoIdentity) << early.output;
  EXPECT_THAT(early.output, AllOf(HasSubstr("`paceline pki token w0`"),
                                  HasSubstr("the secret for " + directory_ + "/w0.token")));
  const std::string token = Token("w0");
  struct stat info = {};
  ASSERT_EQ(stat(token.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  StartWorker(Joining("w0", token, "w0"), "w0");
  ASSERT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0") << ControllerLog();
  const auto own = ReadCertificate(ReadFile(directory_ + "/w0-tls/cert.pem"));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(PrincipalUri(own->principal), "paceline://worker/w0");
  EXPECT_EQ(own->not_after - own->issued(), absl::Hours(24));

  const Finished second = RunToEnd(Joining("w0", token, "thief"));
  EXPECT_EQ(second.exit_code, kExitNoIdentity) << second.output;
  EXPECT_THAT(second.output, HasSubstr("the join token has been used, by another key"));
  const Finished other = RunToEnd(Joining("w1", Token("w2"), "w1"));
  EXPECT_EQ(other.exit_code, kExitNoIdentity) << other.output;
  EXPECT_THAT(other.output, HasSubstr("for another node than w1"));

  // The token's file stays where it is.
  workers_.front()->Kill();
  ASSERT_TRUE(Eventually([&] { return !IsReady("w0"); }));
  StartWorker(Joining("w0", token, "w0"), "w0");
  EXPECT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
}

TEST_F(IdentityTest, WhatTheControllerKeepsIsItsOwn) {
  const mode_t before = umask(0);
  StartTlsController();
  umask(before);
  const auto mode = [&](const std::string& name) {
    struct stat info = {};
    EXPECT_EQ(stat((directory_ + "/controller" + name).c_str(), &info), 0) << name;
    return info.st_mode & 0777;
  };
  EXPECT_EQ(mode(""), 0700u);
  EXPECT_EQ(mode("/state.db"), 0600u);
  EXPECT_EQ(mode("/audit.jsonl"), 0600u);
}

TEST_F(IdentityTest, TokenOutlivesTheController) {
  StartTlsController();
  const std::string token = Token("w0");
  controller_->Kill();
  StartTlsController();
  StartWorker(Joining("w0", token, "w0"), "w0");
  EXPECT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0") << ControllerLog();
  controller_->Kill();
  StartTlsController();
  EXPECT_THAT(RunToEnd(Joining("w0", token, "thief")).output, HasSubstr("has been used"));
}

// The server's answer to a client that does not check its own files.
grpc::StatusCode Asked(const std::string& address, const TlsFiles& files) {
  const auto stub =
      v1::IdentityService::NewStub(grpc::CreateChannel(address, ChannelCredentials(files)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::WhoAmIResponse response;
  return stub->WhoAmI(&context, {}, &response).error_code();
}

TEST_F(IdentityTest, CertificatesThatDoNotHoldAreRefusedClearly) {
  StartTlsController();
  const auto authority = CertificateAuthority::Load(Dir("ca"));
  ASSERT_TRUE(authority.ok()) << authority.status();
  const CertificateAuthority::Grant viewer = {{Role::kViewer, "bob"}, {}, absl::Hours(1)};
  const TlsFiles good = WriteIdentity(Dir("good"), *authority, viewer);
  EXPECT_EQ(Asked(address_, good), grpc::StatusCode::OK);
  EXPECT_EQ(Paceline({"whoami"}, Dir("good")).exit_code, 0);

  const absl::Time now = absl::Now();
  const TlsFiles expired = WriteIdentity(Dir("expired"), *authority, viewer, now - absl::Hours(24));
  const TlsFiles early = WriteIdentity(Dir("early"), *authority, viewer, now + absl::Hours(24));
  const TlsFiles foreign = WriteIdentity(Dir("foreign"), TestAuthority(), viewer);
  ASSERT_TRUE(WritePublic(foreign.ca, authority->certificate_pem()).ok());
  const TlsFiles elsewhere = WriteIdentity(Dir("elsewhere"), TestAuthority(), viewer);
  for (const TlsFiles& files : {expired, early, foreign, elsewhere}) {
    EXPECT_EQ(Asked(address_, files), grpc::StatusCode::UNAVAILABLE) << files.certificate;
  }
  const auto refused = [&](const std::string& name, const std::string& text) {
    const Finished ran = Paceline({"whoami"}, Dir(name));
    EXPECT_EQ(ran.exit_code, kNotPermitted) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(text));
  };
  refused("expired", "has expired on");
  refused("early", "is not valid before");
  refused("foreign", "is not signed by the authority of its ca.pem");
  refused("elsewhere", "signed by another authority than that of " + elsewhere.ca);
  refused("nowhere", "ca.pem is missing");
}

TEST_F(IdentityTest, WorkerSaysThatItsCertificateOrItsClockIsADayOff) {
  StartTlsController();
  const auto authority = CertificateAuthority::Load(Dir("ca"));
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto tries = [&](const std::string& name, absl::Time issued, const std::string& text) {
    const CertificateAuthority::Grant grant = {{Role::kWorker, name}, {}, absl::Hours(1)};
    WriteIdentity(directory_ + "/" + name + "-tls", *authority, grant, issued);
    StartWorker(WorkerCommand(name, name, {"--tls-dir", directory_ + "/" + name + "-tls"}), name);
    EXPECT_TRUE(Eventually([&] {
      return absl::StrContains(WorkerLog(name), "certificate_not_valid") &&
             absl::StrContains(WorkerLog(name), text);
    })) << WorkerLog(name);
  };
  tries("old", absl::Now() - absl::Hours(24), "has expired on");
  tries("early", absl::Now() + absl::Hours(24), "is the clock right?");
  // Neither is accepted, while another worker is.
  StartWorker(Joining("w0", Token("w0"), "w0"), "w0");
  ASSERT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
  EXPECT_EQ(Count(ControllerLog(), "worker_connected"), 1u);
}

TEST_F(IdentityTest, NewCertificateOfTheControllerNeedsNoRestart) {
  StartTlsController();
  StartWorker(Joining("w0", Token("w0"), "w0"), "w0");
  ASSERT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
  const std::string before = ServerCertificate(address_);
  ASSERT_TRUE(ReadCertificate(before).ok());
  const Finished rotated =
      RunToEnd({Program("paceline"), "pki", "rotate", Dir("controller"), "--ca-dir", Dir("ca")});
  ASSERT_EQ(rotated.exit_code, 0) << rotated.output;
  EXPECT_TRUE(Eventually([&] {
    const std::string seen = ServerCertificate(address_);
    return !seen.empty() && seen != before;
  }));
  EXPECT_EQ(ReadCertificate(ServerCertificate(address_))->fingerprint,
            ReadCertificate(ReadFile(Dir("controller") + "/cert.pem"))->fingerprint);
  EXPECT_TRUE(IsReady("w0"));
  EXPECT_EQ(Count(ControllerLog(), "worker_connected"), 1u) << "the session went on";
}

TEST_F(IdentityTest, WorkerRenewsItsCertificateWithoutARestart) {
  StartTlsController({"--worker-certificate-life", "30"});
  StartWorker(Joining("w0", Token("w0"), "w0"), "w0");
  ASSERT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
  const std::string file = directory_ + "/w0-tls/cert.pem";
  const std::string key = ReadFile(directory_ + "/w0-tls/key.pem");
  // At the start, and after two thirds of the life.
  EXPECT_TRUE(Eventually([&] { return Count(WorkerLog("w0"), "certificate_renewed") >= 2; }, kLong))
      << WorkerLog("w0");
  EXPECT_GT(ReadCertificate(ReadFile(file))->not_after, absl::Now());
  EXPECT_EQ(ReadFile(directory_ + "/w0-tls/key.pem"), key);
  EXPECT_EQ(Count(ControllerLog(), "worker_connected"), 1u) << "the session went on";
  // A new session uses the new certificate, which is valid longer than the first was.
  controller_->Kill();
  listen_ = address_;
  StartTlsController();
  EXPECT_TRUE(Eventually([&] { return IsReady("w0"); }, kLong)) << WorkerLog("w0");
}

TEST_F(IdentityTest, RevokedNodeIsPutOutAndComesBackByANewToken) {
  StartTlsController();
  StartWorker(Joining("w0", Token("w0"), "w0"), "w0");
  ASSERT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
  const Finished revoked = Paceline({"pki", "revoke", "worker/w0", "--reason", "stolen disk"});
  ASSERT_EQ(revoked.exit_code, 0) << revoked.output;
  EXPECT_THAT(
      Paceline({"pki", "revoked"}).output,
      AllOf(HasSubstr("paceline://worker/w0"), HasSubstr("  ann "), HasSubstr("stolen disk")));
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(WorkerLog("w0"), "controller_refused") &&
           absl::StrContains(WorkerLog("w0"), "are revoked (stolen disk)");
  })) << WorkerLog("w0");
  ASSERT_TRUE(Eventually([&] { return !IsReady("w0"); })) << ControllerLog();
  workers_.back()->Kill();

  // Also after a restart of the controller.
  controller_->Kill();
  StartTlsController();
  EXPECT_THAT(Paceline({"pki", "revoked"}).output, HasSubstr("paceline://worker/w0"));
  StartWorker(WorkerCommand("w0", "w0", {"--tls-dir", directory_ + "/w0-tls"}), "old");
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(WorkerLog("old"), "are revoked"); }))
      << WorkerLog("old");
  EXPECT_FALSE(IsReady("w0"));
  workers_.back()->Kill();
  StartWorker(Joining("w0", Token("w0"), "w0"), "new");
  EXPECT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("new") << ControllerLog();
}

TEST_F(IdentityTest, DowngradeIsRefusedOnBothSides) {
  StartTlsController();
  const Finished plain = RunToEnd(
      {Program("paceline"), "--server", address_, "--plaintext", "--timeout", "20", "whoami"});
  EXPECT_EQ(plain.exit_code, kNotPermitted) << plain.output;
  EXPECT_THAT(plain.output, HasSubstr("speaks TLS, and was asked for plain text"));
  StartWorker(WorkerCommand("w0", "w0", {"--plaintext"}), "w0");
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(WorkerLog("w0"), "speaks TLS"); }))
      << WorkerLog("w0");
  EXPECT_THAT(ControllerLog(), Not(HasSubstr("worker_connected")));

  controller_->Kill();
  StartController({"--plaintext"});
  const Finished tls = Paceline({"whoami"});
  EXPECT_EQ(tls.exit_code, kNotPermitted) << tls.output;
  EXPECT_THAT(tls.output, HasSubstr("does not speak TLS"));
  // A worker sends its token only to a peer that proves to be the controller.
  ASSERT_TRUE(WritePrivate(directory_ + "/token", "secret\n").ok());
  StartWorker(Joining("w1", directory_ + "/token", "w1"), "w1");
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(WorkerLog("w1"), "does not speak TLS"); }))
      << WorkerLog("w1");
}

TEST_F(IdentityTest, MetricsOverANetworkAreForCertificatesOfTheCluster) {
  http_listen_ = "0.0.0.0:0";
  StartTlsController();
  const std::string file = directory_ + "/w0.address";
  std::vector<std::string> worker = Joining("w0", Token("w0"), "w0");
  worker.insert(worker.end(), {"--listen", "0.0.0.0:0", "--address-file", file});
  StartWorker(worker, "w0");
  // It says hello before it writes that.
  ASSERT_TRUE(Eventually([&] { return !ReadFile(file).empty(); })) << WorkerLog("w0");
  ASSERT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
  const std::string of_worker = nlohmann::json::parse(ReadFile(file))["http"];
  // A worker's certificate is not one to serve with: its scraper does not judge it.
  const TlsFiles admin = FilesIn(Dir("admin"));
  const std::vector<std::pair<std::string, std::string>> servers = {{http_, admin.ca},
                                                                    {of_worker, ""}};
  for (const auto& [served, authority] : servers) {
    const std::string address = "127.0.0.1" + served.substr(served.rfind(':'));
    EXPECT_THAT(TlsGet(address, "/metrics", {authority, admin.certificate, admin.key}),
                StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(TlsGet(address, "/metrics", {authority, "", ""}), StartsWith("HTTP/1.1 403"));
    const auto plain = httplib::Client("http://" + address).Get("/metrics");
    ASSERT_TRUE(plain) << address;
    EXPECT_EQ(plain->status, 400);
  }
}

TEST_F(IdentityTest, PlainTextStaysOnThisMachineAndIsLoud) {
  const auto refused = [&](const std::string& flag, const std::string& address) {
    const Finished ran = RunToEnd({Program("paceline-controller"), "--plaintext", flag, address,
                                   "--state-dir", directory_ + "/none"});
    EXPECT_EQ(ran.exit_code, kExitUsage) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(address + " is reached over a network"));
  };
  refused("--listen", "0.0.0.0:0");
  refused("--http", "0.0.0.0:0");
  address_ = "head.example.org:7450";
  EXPECT_EQ(RunToEnd(WorkerCommand("w0", "w0", {"--plaintext"})).exit_code, kExitUsage);
  const Finished far =
      RunToEnd({Program("paceline"), "--server", address_, "--plaintext", "whoami"});
  EXPECT_EQ(far.exit_code, kNotPermitted);
  EXPECT_THAT(far.output, HasSubstr("is reached over a network"));

  StartController({"--plaintext"});
  EXPECT_THAT(ControllerLog(), HasSubstr("everybody on this machine is an administrator"));
  httplib::Client client("http://" + http_);
  const auto ready = client.Get("/readyz");
  ASSERT_TRUE(ready);
  EXPECT_THAT(ready->body, HasSubstr("plain text"));
  EXPECT_THAT(
      RunToEnd({Program("paceline"), "--server", address_, "--plaintext", "cluster", "status"})
          .output,
      HasSubstr("plain text: everybody"));
}

TEST_F(IdentityTest, ControllerWithoutAUsableCertificateDoesNotStart) {
  const auto refused = [&](const std::string& tls_dir, const std::string& text) {
    const Finished ran =
        RunToEnd({Program("paceline-controller"), "--listen", "127.0.0.1:0", "--http",
                  "127.0.0.1:0", "--state-dir", directory_ + "/none", "--tls-dir", tls_dir});
    EXPECT_EQ(ran.exit_code, kExitNoIdentity) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(text));
  };
  refused(Dir("nothing"), "ca.pem is missing");
  refused(Dir("admin"), "is the certificate of paceline://admin/ann");
  const auto authority = CertificateAuthority::Load(Dir("ca"));
  ASSERT_TRUE(authority.ok()) << authority.status();
  const CertificateAuthority::Grant brief = {
      {Role::kController, "c"}, {"127.0.0.1"}, absl::Hours(1)};
  WriteIdentity(Dir("old"), *authority, brief, absl::Now() - absl::Hours(24));
  refused(Dir("old"), "has expired on");
  WriteIdentity(Dir("early"), *authority, brief, absl::Now() + absl::Hours(24));
  refused(Dir("early"), "is the clock right?");
}

TEST_F(IdentityTest, WhoAmITellsRoleAndEnd) {
  StartTlsController();
  const auto own = nlohmann::json::parse(Paceline({"whoami", "-o", "json"}).output, nullptr, false);
  ASSERT_FALSE(own.is_discarded());
  EXPECT_EQ(own["principal"], "paceline://admin/ann");
  EXPECT_EQ(own["role"], "admin");
  EXPECT_EQ(own["plaintext"], false);
  EXPECT_TRUE(own.contains("expire_time"));
  const Finished renewed = Paceline({"pki", "rotate"});
  EXPECT_EQ(renewed.exit_code, 0) << renewed.output;
  EXPECT_THAT(renewed.output, HasSubstr("renewed paceline://admin/ann"));
}

}  // namespace
}  // namespace paceline
