#include "controller/election/election.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "controller/store/etcd_store.h"
#include "etcd/rpc.pb.h"

namespace paceline {
namespace {

// For the calls of a standby, which tries again and again.
constexpr EtcdClient::Patience kPatience = {absl::Seconds(2), absl::Milliseconds(700)};
constexpr absl::Duration kRetry = absl::Milliseconds(200);
// A standby checks this often even if its watch reports nothing: the etcd member that it watches at
// may have died silently with the leader's machine.
constexpr absl::Duration kLookAgain = absl::Seconds(2);

}  // namespace

Election::Election(EtcdClient* client, Options options, Observer observer)
    : client_(client),
      options_(std::move(options)),
      observer_(std::move(observer)),
      key_(EtcdLeaderKey(options_.prefix)),
      thread_([this] { Run(); }) {}

Election::~Election() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  // A leader's thread only has to give the lease back. A standby's may be waiting for etcd.
  if (end_ns_ == 0) client_->Cancel();
  thread_.join();
}

bool Election::MayAct() const { return absl::ToUnixNanos(BootNow()) < end_ns_; }

bool Election::WaitUntil(absl::Time time) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&ending_), time - BootNow());
}

void Election::Run() {
  while (!deposed_ && WaitUntil(BootNow())) {
    const absl::StatusOr<LeaderRecord> record = Look();
    if (!record.ok()) {
      if (!std::exchange(unreachable_, true)) {
        PACELINE_LOG(WARNING) << "etcd_unreachable reason=\"" << record.status().message()
                              << "\" retrying";
      }
      Tell("");
      WaitUntil(BootNow() + kRetry);
      continue;
    }
    if (std::exchange(unreachable_, false)) PACELINE_LOG(INFO) << "etcd_back";
    if (record->address.empty()) {
      Tell("");
      Campaign();
    } else if (lease_ != 0 && record->lease == lease_) {
      Lead(record->term);
    } else {
      Tell(record->address);
      // A watch that ends at once must not be repeated without a pause.
      if (!client_->WaitForDeletion(key_, record->revision, kLookAgain)) {
        WaitUntil(BootNow() + kRetry);
      }
    }
  }
}

void Election::Tell(const std::string& leader) {
  if (std::exchange(reported_, leader) != leader) observer_.follows(leader);
}

absl::StatusOr<Election::LeaderRecord> Election::Look() {
  etcdserverpb::RangeRequest request;
  request.set_key(key_);
  PACELINE_ASSIGN_OR_RETURN(const auto response, client_->Range(request, kPatience));
  LeaderRecord record;
  record.revision = response.header().revision();
  if (response.kvs().empty()) return record;
  record.address = response.kvs(0).value();
  record.lease = response.kvs(0).lease();
  record.term = response.kvs(0).create_revision();
  return record;
}

// Makes the key unless another controller has it. The next look shows whether that worked, since an
// answer may be lost.
void Election::Campaign() {
  const absl::Time sent = BootNow();
  const absl::StatusOr<EtcdClient::Lease> lease = client_->GrantLease(options_.lease, kPatience);
  if (!lease.ok()) return LoseCampaign(lease.status());
  // Set together: the key may yet be made with the lease of an earlier campaign; that lease counts
  // from its own start.
  lease_ = lease->id;
  lease_sent_ = sent;
  lease_length_ = lease->length;
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& nobody = *request.add_compare();
  nobody.set_target(etcdserverpb::Compare::CREATE);
  nobody.set_key(key_);
  nobody.set_create_revision(0);
  etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key_);
  put.set_value(options_.address);
  put.set_lease(lease_);
  const absl::StatusOr<etcdserverpb::TxnResponse> made = client_->Txn(request, kPatience);
  if (!made.ok()) return LoseCampaign(made.status());
  if (!made->succeeded()) client_->RevokeLease(lease_, kPatience).IgnoreError();
  campaign_lost_ = false;
}

// etcd answers questions but does not let the key be made: for example, it is full.
void Election::LoseCampaign(const absl::Status& why) {
  if (!std::exchange(campaign_lost_, true)) {
    PACELINE_LOG(WARNING) << "campaign_failed reason=\"" << why.message() << "\" retrying";
  }
  WaitUntil(BootNow() + kRetry);
}

void Election::Lead(int64_t term) {
  LeaderLease lease(lease_sent_, lease_length_);
  if (!lease.MayAct(BootNow())) {  // Too late: another leads, or this one tries again.
    client_->RevokeLease(lease_, kPatience).IgnoreError();
    lease_ = 0;
    return;
  }
  end_ns_ = absl::ToUnixNanos(lease.end());
  PACELINE_LOG(INFO) << "elected term=" << term << " address=" << options_.address
                     << " lease=" << absl::FormatDuration(lease_length_);
  reported_ = options_.address;
  observer_.elected(term);
  while (WaitUntil(std::min(lease.NextRenewal(), lease.end()))) {
    if (lease.MayAct(BootNow())) Renew(lease);
    if (!deposed_ && !lease.MayAct(BootNow())) {
      deposed_ = true;
      observer_.deposed(
          "its lease was not renewed in time: etcd did not answer, or this process "
          "stood still");
    }
    if (deposed_) return;
  }
  client_->RevokeLease(lease_, {lease.Attempt() * 3, lease.Attempt()}).IgnoreError();
  PACELINE_LOG(INFO) << "stood_back term=" << term;
}

void Election::Renew(LeaderLease& lease) {
  const absl::Time sent = BootNow();
  // Makes one attempt, after which the clock is checked again: the patience of calls does not count
  // time in which the machine is suspended.
  const absl::Duration attempt = std::min(lease.Attempt(), lease.end() - sent);
  const absl::StatusOr<absl::Duration> length = client_->KeepLeaseAlive(lease_, {attempt, attempt});
  if (!length.ok()) {
    PACELINE_LOG(WARNING) << "lease_not_renewed reason=\"" << length.status().message() << "\"";
    WaitUntil(std::min(sent + kRetry, lease.end()));
    return;
  }
  if (*length == absl::ZeroDuration()) {
    deposed_ = true;
    end_ns_ = 0;
    observer_.deposed("etcd has ended its lease");
    return;
  }
  lease.Renewed(sent, *length);
  end_ns_ = absl::ToUnixNanos(lease.end());
}

}  // namespace paceline
