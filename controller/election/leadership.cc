#include "controller/election/leadership.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/address_file.h"
#include "common/core/loopback.h"
#include "common/core/status_macros.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/service_manager.h"
#include "common/state_lock/state_lock.h"
#include "controller/election/election.h"
#include "controller/election/standby.h"
#include "controller/store/etcd_store.h"

namespace paceline {

Leadership::Leadership(Options options) : options_(std::move(options)) {}

Leadership::~Leadership() { election_.reset(); }

ServerFailure Leadership::Start() {
  for (std::unique_ptr<EtcdClient>* client : {&store_client_, &election_client_}) {
    auto made = EtcdClient::Create(options_.etcd);
    if (!made.ok()) return {made.status(), kExitUsage};
    *client = *std::move(made);
  }
  if (options_.advertise.empty() && IsEveryInterface(options_.listen)) {
    return {absl::InvalidArgumentError(
                absl::StrCat("--listen ", options_.listen,
                             " does not say where clients reach this controller: give --advertise "
                             "HOST:PORT")),
            kExitUsage};
  }
  auto lock = StateLock::Take(options_.state_dir);
  if (!lock.ok()) return StateFailure(lock.status());
  lock_ = std::make_unique<StateLock>(*std::move(lock));
  auto standby = Standby::Start(options_.listen, options_.http, options_.credentials,
                                options_.http_tls, options_.identity);
  if (!standby.ok()) return {standby.status(), kExitCannotListen};
  standby_ = *std::move(standby);
  listen_ = standby_->grpc_address();
  http_ = standby_->http_address();
  const absl::Status written = WriteAddressFile(options_.address_file, listen_, http_);
  if (!written.ok()) return StateFailure(written);
  PACELINE_LOG(INFO) << "standing_by grpc=" << listen_ << " http=" << http_;
  const std::string address = options_.advertise.empty() ? listen_ : options_.advertise;
  election_ = std::make_unique<Election>(
      election_client_.get(), Election::Options{options_.prefix, address, options_.lease},
      Election::Observer{[this](const std::string& leader) {
                           PACELINE_LOG(INFO) << "following leader=" << leader;
                           standby_->SetLeader(leader);
                         },
                         [this, address](int64_t term) {
                           // Done before this controller counts the nodes' leases: a node that
                           // hears after that that nobody leads would hold its lease longer than
                           // counted.
                           standby_->SetLeader(address);
                           term_ = term;
                           loop_.Stop();
                         },
                         options_.deposed});
  return {};
}

absl::StatusOr<Elected> Leadership::Wait() {
  ReportServing(loop_);
  loop_.Run();
  if (term_ == 0) return absl::CancelledError("asked to end");
  Elected elected;
  PACELINE_ASSIGN_OR_RETURN(elected.store,
                            EtcdStore::Open(store_client_.get(), options_.prefix, term_));
  elected.term = term_;
  elected.may_act = [this] { return election_->MayAct(); };
  elected.make_way = [this] { standby_.reset(); };
  return elected;
}

}  // namespace paceline
