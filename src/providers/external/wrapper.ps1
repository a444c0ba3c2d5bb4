# Fetches the install script of this machine and runs it; tells when that cannot be done.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12

$headers = @{ Authorization = "Bearer $env:BEARER_TOKEN" }
if ($env:https_proxy) { [Net.WebRequest]::DefaultWebProxy = New-Object Net.WebProxy($env:https_proxy) }

function Invoke-Patiently([scriptblock]$Call) {
    for ($try = 1; ; $try++) {
        try { return & $Call } catch { if ($try -ge 5) { throw }; Start-Sleep -Seconds 5 }
    }
}

try {
    $script = Join-Path $env:TEMP 'ostler-install.ps1'
    Invoke-Patiently { Invoke-WebRequest -UseBasicParsing -Headers $headers -Uri "$env:METADATA_URL/install-script/" -OutFile $script }
    & powershell.exe -NoProfile -ExecutionPolicy Bypass -File $script
    if ($LASTEXITCODE -ne 0) { exit 1 }
} catch {
    $body = @{ status = 'failed'; message = "cannot run the install script: $_" } | ConvertTo-Json -Compress
    try { Invoke-Patiently { Invoke-RestMethod -Method Post -Headers $headers -ContentType 'application/json' -Body $body -Uri "$env:CALLBACK_URL/status" } } catch { Write-Error $_ -ErrorAction Continue }
    exit 1
} finally {
    Remove-Item -Force -ErrorAction SilentlyContinue $script
}
